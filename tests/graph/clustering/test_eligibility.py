"""Why nodes are left to TensorFlow."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from tests.frontend.check import types_of_graph
from tf_stitch.device.spec import CPU, H200
from tf_stitch.graph.clustering.clusters import Clustering, ClusterOptions, Regions
from tf_stitch.graph.clustering.eligibility import OF_ANOTHER_TASK, ON_THE_CPU
from tf_stitch.graph.state import GraphState

PROFILES = {"CPU": CPU.profile, "GPU": H200.profile}


def found(function: Any, device: str, native: bool) -> tuple[Regions, dict[str, str]]:
    """Regions of a function on a device; and by op why a node is in none."""
    graph = tf.function(function).get_concrete_function(tf.TensorSpec((4, 8))).graph
    graph_def = graph.as_graph_def()
    for node in graph_def.node:
        node.device = f"/device:{device}:0"
    state = GraphState(graph_def, types_of_graph(graph), frozenset())
    regions = Clustering(state, ClusterOptions(1, PROFILES, native)).find()
    ops = {node.name: node.op for node in graph_def.node}
    return regions, {ops[name]: reason for name, reason in regions.left_out.items()}


@pytest.mark.parametrize(("device", "native", "taken"), [("CPU", True, True), ("CPU", False, True),
                                                         ("GPU", True, True), ("GPU", False, False)])  # fmt: skip
def test_regions_in_python_take_nothing_from_a_gpu(device: str, native: bool, taken: bool) -> None:
    """An integer of NaN is 0 on a GPU and the least one on a CPU: the same program, the same results."""
    regions, why = found(lambda x: tf.cast(tf.cast(x, tf.int32), tf.float64), device, native)
    assert bool(regions.regions) is taken
    assert (why.get("Cast") == ON_THE_CPU) is not taken


def test_regions_in_python_update_no_variable() -> None:
    v = tf.Variable(tf.ones((4, 8)))
    for native in (True, False):
        regions, why = found(lambda x: v.assign_add(tf.tanh(x)), "CPU", native)
        assert ("cannot" in why.get("AssignAddVariableOp", "")) is not native
        assert len(regions.regions) == 1


def test_nodes_of_another_process_stay() -> None:
    function = tf.function(lambda x: tf.tanh(x) * tf.sigmoid(x)).get_concrete_function(tf.TensorSpec((4, 8)))
    graph_def = function.graph.as_graph_def()
    for node in graph_def.node:
        node.device = f"/job:worker/replica:0/task:{int(node.op == 'Tanh')}/device:CPU:0"
    state = GraphState(graph_def, types_of_graph(function.graph), frozenset(), is_own=lambda device: "task:0" in device)
    regions = Clustering(state, ClusterOptions(1, PROFILES)).find()
    assert [set(region.members) for region in regions.regions] == [{"Sigmoid", "mul"}]
    assert regions.left_out["Tanh"] == OF_ANOTHER_TASK
