"""Nodes that run regions, in place of the regions' nodes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from tests.frontend.check import types_of_graph
from tf_stitch.device.spec import CPU
from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.graph.clustering.clusters import Clustering, ClusterOptions
from tf_stitch.graph.clustering.stitch_node import stitch_node
from tf_stitch.graph.state import GraphState


def replaced(build: Callable[[], object]) -> GraphDef:
    """A graph without automatic control edges, with its regions replaced."""
    with tf.Graph().as_default() as graph:
        build()
    state = GraphState(graph.as_graph_def(), types_of_graph(graph), frozenset({"end"}))
    clustering = Clustering(state, ClusterOptions(1, {"CPU": CPU.profile}))
    regions = clustering.find().regions
    assert regions
    return clustering.apply(regions, lambda region, device, controls: stitch_node(
        f"region_{region.members[-1]}", region, 0, device, controls))


def before(graph_def: GraphDef, name: str) -> set[str]:
    """Names of all nodes that lead to one."""
    inputs = {node.name: [producer_of(t) for t in node.input] for node in graph_def.node}
    pending, found = [name], set[str]()
    while pending:
        new = set(inputs[pending.pop()]) - found
        found |= new
        pending += new
    return found


@pytest.mark.parametrize("stored", [
    tf.identity, lambda old: old + 1.0, lambda old: tf.linalg.inv(old) + 1.0,
    lambda old: tf.fill(tf.raw_ops.Shape(input=old), 3.0),
])
def test_a_value_that_no_store_shows_still_orders(stored: Callable[[tf.Tensor], tf.Tensor]) -> None:
    """A dead store's value, or a value written back, is all that leads from a read to the next store."""
    def build() -> None:
        handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[4, 4], shared_name="w")
        now = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
        new = tf.tanh(tf.sigmoid(now) * 2.0)
        old = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32, name="outside")
        slow = tf.linalg.inv(old)
        dead = tf.raw_ops.AssignVariableOp(resource=handle, value=stored(old))
        with tf.control_dependencies([dead]):
            last = tf.raw_ops.AssignVariableOp(resource=handle, value=new)
        with tf.control_dependencies([last, slow]):
            tf.no_op("end")

    after = replaced(build)
    (region,) = (node.name for node in after.node if node.op == "StitchStateOp")
    assert "outside" in before(after, region)


def test_what_has_no_state_behind_it_is_not_waited_for() -> None:
    """A region reads a size at rewrite time: nothing makes it follow what has that size."""
    def build() -> None:
        x = tf.raw_ops.Placeholder(dtype=tf.float32, shape=[4, 4])
        slow = tf.linalg.inv(x)
        y = tf.tanh(x) * tf.fill(tf.raw_ops.Shape(input=slow), 3.0)
        with tf.control_dependencies([slow]):
            tf.raw_ops.Print(input=y, data=[], name="end")

    after = replaced(build)
    (region,) = (node for node in after.node if node.op == "StitchOp")
    assert not [t for t in region.input if t.startswith("^")]
