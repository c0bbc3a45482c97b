"""Batch norm's third reserve space: on a GPU it never leaves or enters a region; on a CPU anything does for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import types_of_graph
from tf_stitch.device.spec import CPU, H200
from tf_stitch.graph.clustering.clusters import Clustering, ClusterOptions, Regions
from tf_stitch.graph.clustering.private_tensors import SPLIT_ACROSS_REGIONS
from tf_stitch.graph.fallback.fallback_subgraph import fallback_subgraph
from tf_stitch.graph.state import GraphState

NORMS = ("FusedBatchNormV3", "FusedBatchNormGradV3")
SHAPE = (2, 4, 4, 8)


def step(between: Callable[[tf.Tensor], tf.Tensor], training: bool = True) -> Callable[[tf.Tensor], tf.Tensor]:
    """A norm and its gradient, with `between` after the norm."""

    def function(x: tf.Tensor) -> tf.Tensor:
        ones = tf.ones(8)
        with tf.GradientTape() as tape:
            tape.watch(x)
            moving = (ones, ones) if not training else ([], [])
            y = tf.raw_ops.FusedBatchNormV3(x=tf.tanh(x), scale=ones, offset=ones, mean=moving[0],
                                            variance=moving[1], is_training=training)[0]
            loss = tf.reduce_sum(tf.square(between(tf.tanh(y))))
        return tape.gradient(loss, x)

    return function


def pool(x: tf.Tensor) -> tf.Tensor:
    return tf.nn.max_pool2d(x, 2, 2, "VALID")


def traced(function: Any, device: str) -> GraphState:
    """The graph on a device, without what nobody reads, as TensorFlow prunes it (zeros made of the reserve space)."""
    graph = tf.function(function).get_concrete_function(tf.TensorSpec(SHAPE)).graph
    graph_def = tf.compat.v1.graph_util.extract_sub_graph(graph.as_graph_def(), [o.op.name for o in graph.outputs])
    for node in graph_def.node:
        node.device = f"/device:{device}:0"
    return GraphState(graph_def, types_of_graph(graph), frozenset())


def rewritten(function: Any, device: str, skip: tuple[str, ...] = ()) -> tuple[Regions, Any, Any]:
    """What is found, the graph's nodes by name, and the imported graph."""
    state = traced(function, device)
    graph_def, imported = state.graph_def, state.imported
    why_not: Callable[[str], str | None] = lambda name: "skipped" if imported.nodes[name].op in skip else None  # noqa: E731
    options = ClusterOptions(1, {"CPU": CPU.profile, "GPU": H200.profile}, why_not=why_not)
    found = Clustering(state, options).find()
    return found, {n.name: n for n in graph_def.node}, imported


def norms_of(found: Regions, defs: Any) -> list[set[str]]:
    """For each region with a norm or its gradient, which."""
    ops = [{defs[m].op for m in region.members} & set(NORMS) for region in found.regions]
    return [held for held in ops if held]


def test_a_gpus_region_holds_both() -> None:
    found, defs, imported = rewritten(step(lambda y: y), "GPU")
    assert norms_of(found, defs) == [set(NORMS)]
    assert next(imported.value(f"{n}:5") for n in defs if defs[n].op == NORMS[0]) is None


@pytest.mark.parametrize(("between", "skip"), [(pool, ()), (lambda y: y, NORMS[:1]), (lambda y: y, NORMS[1:])])
def test_a_gpus_regions_hold_neither(between: Any, skip: tuple[str, ...]) -> None:
    """The pooling keeps them from being one region; and the user may want one of them left alone."""
    found, defs, _ = rewritten(step(between), "GPU", skip)
    assert norms_of(found, defs) == []
    reasons = {defs[name].op: reason for name, reason in found.left_out.items()}
    assert {reasons[op] for op in NORMS if op not in skip} == {SPLIT_ACROSS_REGIONS}
    assert found.regions, "what is beside them is stitched"


@pytest.mark.parametrize(("device", "training"), [("CPU", True), ("CPU", False), ("GPU", False)])
def test_others_hold_either(device: str, training: bool) -> None:
    found, defs, _ = rewritten(step(pool, training), device)
    assert sorted(map(sorted, norms_of(found, defs))) == [[op] for op in sorted(NORMS)]


def test_a_gradient_by_itself_runs_again_without_the_norm() -> None:
    found, defs, imported = rewritten(step(pool), "CPU")
    region = next(r for r in found.regions if any(defs[m].op == NORMS[1] for m in r.members))
    fallback = fallback_subgraph(defs, imported, region)
    assert fallback is not None
    assert NORMS[0] not in {n.op for n in fallback.function("fallback").node_def}
    values = [np.ones([int(d) for d in shape], np.float32) for shape in region.argument_shapes]
    [got], _ = fallback.run(values, [], [])
    assert got.shape == SHAPE


def test_a_norm_whose_results_are_fetched_stays() -> None:
    state = traced(step(lambda y: y), "GPU")
    names = {n.op: n.name for n in state.graph_def.node}
    state = replace(state, preserved=frozenset({names[NORMS[0]]}))
    found = Clustering(state, ClusterOptions(1, {"CPU": CPU.profile, "GPU": H200.profile})).find()
    assert "somebody asks for it" in found.left_out[names[NORMS[0]]]
    assert found.left_out[names[NORMS[1]]] == SPLIT_ACROSS_REGIONS
