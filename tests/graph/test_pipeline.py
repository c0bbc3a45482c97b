"""Regions of a whole graph, after all passes: which stay TensorFlow's, and that what is proved of order holds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from tests.graph.branches.programs import Program
from tests.graph.clustering.test_controls import reasons, regions, rewrite
from tf_stitch.config import StitchConfig, load_config
from tf_stitch.device.spec import H200
from tf_stitch.graph.clustering.controls import Controls
from tf_stitch.graph.clustering.stitch_node import stitch_node
from tf_stitch.graph.fallback import fallback_subgraph
from tf_stitch.graph.pipeline import GraphOptions, find_regions, finishing_passes
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import Pass


def test_a_region_without_a_whole_fallback_subgraph_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = fallback_subgraph.why_incomplete
    monkeypatch.setattr(fallback_subgraph, "why_incomplete", lambda nodes, arguments, outputs, members: (
        "it lacks a node" if "layer1/squash" in members else found(nodes, arguments, outputs, members)))
    _, entry = rewrite(load_config({}))
    refused = {name for name, reason in reasons(entry).items() if reason == "it lacks a node"}
    assert {"layer1/squash", "layer1/normalise"} <= refused
    in_regions = {name for name, region in regions(entry).items() if region is not None}
    assert "layer0/squash" in in_regions
    assert not refused & in_regions


def branch_in_a_branch(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
    """The predicates are computed before a matrix is inverted, and what they choose is assigned after it."""
    [v] = variables
    first, second = v.read_value(), v.read_value()
    slow = tf.reshape(tf.linalg.inv(tf.reshape(tf.tanh(second) + x, [2, 2])), [4])

    def other() -> None:
        v.assign(first)
        v.assign(second)
        tf.cond(x[1] > 0.0, lambda: v.assign(x * 2.0 - second) is None, lambda: True)

    tf.cond(x[0] > 0.0, lambda: v.assign(slow) is None, lambda: other() is None)
    v.assign_sub(x)
    return [first]


def test_what_is_computed_for_an_update_does_not_stand_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A region that computes an inner branch's predicate may also read the variable, and come before others that
    update it: it need not come where the branch's update did, whose name the predicate's nodes have."""
    checked: dict[str, str] = {}

    def finishing(given: GraphDef, members: Mapping[str, str]) -> tuple[Pass[GraphState], ...]:
        checked.update(members)
        return finishing_passes(given, members)

    monkeypatch.setattr("tf_stitch.graph.pipeline.finishing_passes", finishing)
    program, config = Program(branch_in_a_branch, [np.arange(4, dtype=np.float32)]), StitchConfig(min_region=1)
    options = GraphOptions.by(config, "GPU", True, {"GPU": H200.profile}, Controls(config))
    found = find_regions(program.given, options)
    found.replaced(lambda region, device, controls: stitch_node(
        f"region_{region.members[-1]}", region, 0, device, controls))
    ops = {node.name: node.op for node in found.state.graph_def.node}
    computed = {name for region in found.regions.regions for name in region.members if "/tfs_" in name}
    assert {"LogicalAnd", "SelectV2", "ReadVariableOp"} <= {ops[name] for name in computed}
    assert {ops[name] for name in checked} == {"ReadVariableOp", "AssignVariableOp", "AssignSubVariableOp"}
