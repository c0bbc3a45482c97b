"""A region waits for no other device on behalf of some of its nodes alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tests.frontend.check import types_of_graph
from tf_stitch.device.spec import CPU, H200
from tf_stitch.graph.clustering.clusters import Clustering, ClusterOptions
from tf_stitch.graph.clustering.device_crossings import SHARED, device_stages
from tf_stitch.graph.state import GraphState

LARGE = (64, 64)


def state_of(function: Callable[..., Any], *shapes: tuple[int, ...], kind: str = "GPU") -> GraphState:
    """The graph with nodes named "a/x" on device 0, "b/x" on device 1, others on the host."""
    graph = tf.function(function, autograph=False).get_concrete_function(*(tf.TensorSpec(s) for s in shapes)).graph
    graph_def = graph.as_graph_def()
    for node in graph_def.node:
        scope, _, inside = node.name.partition("/")
        node.device = f"/device:{kind}:{scope == 'b':d}" if inside else "/device:CPU:0"
    return GraphState(graph_def, types_of_graph(graph), frozenset())


def regions_of(state: GraphState) -> list[set[str]]:
    found = Clustering(state, ClusterOptions(1, {"CPU": CPU.profile, "GPU": H200.profile})).find()
    return [set(region.members) for region in found.regions]


def replicas(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Two losses, their mean on the first device, and gradients of each."""
    losses, gradients = [], []
    for scope, given in (("a", x), ("b", y)):
        with tf.name_scope(scope):
            losses.append(tf.reduce_sum(tf.tanh(given, name="forward"), name="loss"))
            gradients.append(tf.exp(given * losses[-1], name="backward"))
    with tf.name_scope("a/"):
        mean = tf.multiply(tf.add(*losses), 0.5, name="mean")
    return mean, *gradients


def test_no_replica_waits_for_another() -> None:
    found = regions_of(state_of(replicas, LARGE, LARGE))
    assert any({"a/forward", "a/loss", "a/backward"} <= region for region in found)
    assert any({"b/forward", "b/loss", "b/backward"} <= region for region in found)
    assert any("a/mean" in region for region in found)
    assert not any({"a/forward", "a/mean"} <= region for region in found)


def test_stages_count_changes_of_the_device() -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        for scope in "abab":
            with tf.name_scope(f"{scope}/"):
                x = tf.tanh(x)
        return x

    stages = device_stages(state_of(function, LARGE).imported)
    assert [stages[name] for name in ("a/Tanh", "b/Tanh", "a/Tanh_1", "b/Tanh_1")] == [0, 1, 2, 3]


def test_the_host_hands_on_what_devices_give() -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        with tf.name_scope("b"):
            there = tf.tanh(x, name="there")
        between = tf.exp(there, name="between")
        with tf.name_scope("a"):
            return tf.add(tf.sin(x, name="here"), between, name="sum")

    stages = device_stages(state_of(function, LARGE).imported)
    assert (stages["b/there"], stages["a/here"], stages["a/sum"]) == (0, 0, 1)


def test_small_values_that_all_devices_read_are_there_early() -> None:
    """A rate made of a step's number: neither does the second update wait for the first, nor is it cut by the rate."""
    def function(x: tf.Tensor, step: tf.Tensor) -> tuple[tf.Tensor, ...]:
        with tf.name_scope("a"):
            rate = tf.multiply(tf.exp(step, name="decay"), 0.1, name="rate")
            first = tf.subtract(x, tf.tanh(x, name="update") * rate, name="new")
        with tf.name_scope("b"):
            second = tf.subtract(x, tf.tanh(x, name="update") * rate, name="new")
        return first, second

    state = state_of(function, LARGE, ())
    stages = device_stages(state.imported)
    assert stages["a/decay"] == stages["a/rate"] == SHARED
    assert {stages[name] for name in ("a/update", "a/new", "b/update", "b/new")} == {0}
    found = regions_of(state)
    assert not any({"a/rate", "a/new"} <= region for region in found)
    assert any({"b/update", "b/new"} <= region for region in found)


def test_small_values_of_large_ones_are_late() -> None:
    stages = device_stages(state_of(replicas, LARGE, LARGE).imported)
    assert (stages["b/loss"], stages["a/mean"]) == (0, 1)


def test_control_edges_count() -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        with tf.name_scope("b"):
            there = tf.tanh(x, name="there")
        with tf.name_scope("a"):
            here = tf.sin(x, name="here")
            with tf.control_dependencies([there]):
                return tf.exp(here, name="after")

    stages = device_stages(state_of(function, LARGE).imported)
    assert (stages["a/here"], stages["a/after"]) == (0, 1)


def test_a_collective_begins_anew() -> None:
    """It ends when all devices are there, however often its inputs changed them."""
    def function(x: tf.Tensor) -> tf.Tensor:
        with tf.name_scope("b"):
            there = tf.tanh(x, name="there")
        with tf.name_scope("a"):
            given = tf.exp(there, name="given")
            summed = tf.raw_ops.CollectiveReduceV2(input=given, group_size=2, group_key=1, instance_key=1,
                                                   ordering_token=[], merge_op="Add", final_op="Id", name="summed")
            return tf.tanh(summed, name="after")

    stages = device_stages(state_of(function, LARGE).imported)
    assert (stages["a/given"], stages["a/after"]) == (1, 0)


def test_one_device_has_no_stages() -> None:
    assert device_stages(state_of(lambda x: tf.tanh(x, name="a/x"), LARGE).imported) == {}


def test_hosts_without_gpus_are_devices() -> None:
    stages = device_stages(state_of(replicas, LARGE, LARGE, kind="CPU").imported)
    assert (stages["a/backward"], stages["a/mean"]) == (0, 1)
