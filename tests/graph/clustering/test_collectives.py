"""What a collective waits for, its members on other devices wait for, too."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.frontend.check import types_of_graph
from tf_stitch.device.spec import CPU, H200
from tf_stitch.graph.clustering.clusters import Clustering, ClusterOptions
from tf_stitch.graph.clustering.collectives import in_order, waits_for_others
from tf_stitch.graph.passes.all_reduces import ALL_REDUCE
from tf_stitch.graph.passes.exchanges import EXCHANGE
from tf_stitch.graph.state import GraphState
from tf_stitch.planning.remote_stitching import RegionNode


def summed(x: tf.Tensor, name: str) -> tf.Tensor:
    return tf.raw_ops.CollectiveReduceV2(input=x, group_size=2, group_key=1, instance_key=1, ordering_token=[],
                                         merge_op="Add", final_op="Id", name=name)


def two_devices(op: str = "CollectiveReduceV2") -> GraphState:
    """What stands before the sum of device a reads what stands behind that of device b, once b's small value is in one
    region with it."""
    with tf.Graph().as_default() as graph:
        x, small = tf.compat.v1.placeholder(tf.float32, (8, 8)), tf.compat.v1.placeholder(tf.float32, (8,))
        told = tf.tanh(small, name="b/told")
        behind_b = tf.exp(summed(tf.sin(x, name="b/before"), "b/sum") * told, name="b/behind")
        before_a = tf.cos(x, name="a/before")
        tf.add(before_a, tf.exp(told, name="a/heard"), name="a/mean")
        tf.add(tf.exp(summed(before_a, "a/sum")), behind_b[0], name="a/behind")
    graph_def = graph.as_graph_def()
    for node in graph_def.node:
        node.device = f"/device:CPU:{node.name.startswith('b/'):d}"
        if node.op == "CollectiveReduceV2":
            node.op = op
    return GraphState(graph_def, types_of_graph(graph), frozenset())


@pytest.mark.parametrize("op", ["CollectiveReduceV2", ALL_REDUCE, EXCHANGE])
def test_each_waits_for_what_the_other_waits_for(op: str) -> None:
    found = waits_for_others(two_devices(op).imported)
    assert "b/before" in found["a/sum"]
    assert "a/before" in found["b/sum"]
    assert "a/before" not in found["a/sum"], "its own edges say that"


def test_no_region_waits_for_itself() -> None:
    state = two_devices()
    options = ClusterOptions(1, {"CPU": CPU.profile, "GPU": H200.profile})
    regions = [set(r.members) for r in Clustering(state, options).find().regions]
    assert not any({"b/told", "b/behind"} <= region for region in regions)
    assert any("a/mean" in region and "a/before" in region for region in regions)


def test_collectives_that_follow_each_other_are_not_the_same() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, (4,))
        summed(tf.exp(summed(tf.sin(x, name="first"), "s0"), name="second"), "s1")
    found = waits_for_others(GraphState(graph.as_graph_def(), types_of_graph(graph), frozenset()).imported)
    assert found == {"s0": (), "s1": ()}


def node(name: str, *inputs: str, after: tuple[str, ...] = ()) -> RegionNode:
    return RegionNode(name, inputs, after, None, 1)


def test_the_order_stays_where_it_can() -> None:
    nodes = [node("a"), node("b", "a", after=("d",)), node("c"), node("d", "c")]
    assert [n.name for n in in_order(nodes, {"b": ("d",)})] == ["a", "c", "d", "b"]
    back_edge = in_order(nodes, {"c": ("a",)})
    assert [n.name for n in back_edge] == ["a", "b", "c", "d"], "what comes later and is none of these closes a loop"
