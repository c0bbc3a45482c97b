"""The TensorFlow nodes of a region, to be run again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tests.frontend.check import trace
from tf_stitch.graph.clustering.region_graph import RegionGraph, cut_region
from tf_stitch.graph.fallback.fallback_subgraph import FallbackSubgraph, _can_recompute, fallback_subgraph


def fallback_of(op: str, step: Callable[..., Any], *specs: tf.TensorSpec) -> tuple[RegionGraph, FallbackSubgraph]:
    """The region of the nodes named so, which gives what its node of this op computes; and its own nodes."""
    traced = trace(step, *specs)
    imported, defs = traced.imported, {n.name: n for n in traced.concrete.graph.as_graph_def().node}
    members = [name for name in imported.nodes if name.startswith("region/") and imported.nodes[name].reason is None]
    result = next(name for name in members if imported.nodes[name].op == op)
    region = cut_region(imported, members, [f"{result}:0"])
    fallback = fallback_subgraph(defs, imported, region)
    assert fallback is not None
    return region, fallback


@pytest.mark.parametrize("rows", [None, 3])
def test_a_shape_behind_a_variable_is_read_from_an_input(rows: int | None) -> None:
    """As gradients do with dynamic shapes: the tensor that had the shape is not there, and a variable that it depends
    on has been updated."""
    bias = tf.Variable(np.ones(4, np.float32))

    def step(x: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
        shape = tf.raw_ops.Shape(input=tf.nn.bias_add(x, bias))
        bias.assign_sub(tf.reduce_sum(gradient, 0))
        with tf.name_scope("region"):
            return tf.reshape(gradient, shape) * tf.exp(x)

    spec = tf.TensorSpec([rows, 4], tf.float32)
    region, fallback = fallback_of("Mul", step, spec, spec)
    assert "ReadVariableOp" not in {n.op for n in fallback.function("fallback").node_def}
    values: dict[str, Any] = {"x": np.arange(12, dtype=np.float32).reshape(3, 4),
                              "gradient": np.ones((3, 4), np.float32)}
    inputs = [values[name.partition(":")[0]] for name in region.inputs]
    [got], state = fallback.run(inputs, [], [])
    np.testing.assert_allclose(got, np.exp(values["x"]), rtol=1e-6)
    assert state == {}


@pytest.mark.parametrize("out_type", [tf.int32, tf.int64])
def test_a_shape_that_no_input_has_is_put_together_of_their_sizes(out_type: tf.DType) -> None:
    scale = tf.Variable(np.float32(2))

    def step(x: tf.Tensor, y: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
        shape = tf.raw_ops.Shape(input=tf.expand_dims(x, 1) * y * scale, out_type=out_type)
        scale.assign_sub(tf.reduce_sum(gradient))
        with tf.name_scope("region"):
            return tf.reshape(gradient, shape) + tf.expand_dims(tf.exp(x), 1) * tf.exp(y)

    spec = tf.TensorSpec([None], tf.float32)
    region, fallback = fallback_of("AddV2", step, spec, spec, spec)
    ops = [n.op for n in fallback.function("fallback").node_def]
    assert "ReadVariableOp" not in ops
    assert sorted(ops.count(op) for op in ("Shape", "Pack")) == [1, 2]
    rng = np.random.default_rng(0)
    values = {name: rng.standard_normal(size).astype("f4") for name, size in (("x", 3), ("y", 5), ("gradient", 15))}
    [got], _ = fallback.run([values[name.partition(":")[0]] for name in region.inputs], [], [])
    want = values["gradient"].reshape(3, 5) + np.exp(values["x"])[:, None] * np.exp(values["y"])
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_variables_that_are_one_are_read_and_updated_in_order() -> None:
    variable = tf.Variable(np.zeros(4, np.float32))

    def step(x: tf.Tensor, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        with tf.name_scope("region"):
            before = variable.read_value()
            with tf.control_dependencies([before]):
                tf.raw_ops.AssignVariableOp(resource=variable.handle, value=x)
            tf.raw_ops.AssignAddVariableOp(resource=first, value=x)
            tf.raw_ops.AssignAddVariableOp(resource=second, value=x)
            return before + 3.0 * variable.read_value()

    handle = tf.TensorSpec([], tf.resource)
    region, fallback = fallback_of("AddV2", step, tf.TensorSpec([4], tf.float32), handle, handle)
    place = {name: i for i, name in enumerate(region.handles)}
    assert len(place) == 3
    x, value = np.arange(4, dtype=np.float32), np.full(4, 10, np.float32)
    same_as = [0, 1, 2]
    first, second = place["first:0"], place["second:0"]
    same_as[max(first, second)] = min(first, second)
    [got], state = fallback.run([x], [value] * 3, same_as)
    np.testing.assert_array_equal(got, value + 3 * x)
    np.testing.assert_array_equal(state[first], value + 2 * x)
    np.testing.assert_array_equal(state[second], value + 2 * x)


def test_no_shape_is_computed_of_a_variable_that_the_region_updates() -> None:
    """The handle is at hand, and the value behind it is another one by then."""
    scale = tf.Variable(np.ones(5, np.float32))

    def step(x: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
        shape = tf.raw_ops.Shape(input=tf.expand_dims(x, 1) * scale)
        with tf.name_scope("region"):
            scale.assign_sub(tf.ones(5))
            return tf.reshape(gradient, shape) + tf.expand_dims(tf.exp(x), 1)

    spec = tf.TensorSpec([None], tf.float32)
    region, fallback = fallback_of("AddV2", step, spec, spec)
    assert len(region.handles) == 1
    assert "ReadVariableOp" not in {n.op for n in fallback.function("fallback").node_def}
    values = {"x": np.arange(3, dtype="f4"), "gradient": np.arange(15, dtype="f4")}
    [got], state = fallback.run([values[name.partition(":")[0]] for name in region.inputs], [np.ones(5, "f4")], [0])
    np.testing.assert_allclose(got, values["gradient"].reshape(3, 5) + np.exp(values["x"])[:, None], rtol=1e-6)
    np.testing.assert_array_equal(state[0], np.zeros(5, "f4"))


def test_what_is_written_are_variables_alone() -> None:
    """An update reads more than the handle; copies are made of what it names."""
    table = tf.Variable(np.ones((5, 2), np.float32))

    def step(rows: tf.Tensor, updates: tf.Tensor) -> tf.Tensor:
        with tf.name_scope("region"):
            tf.raw_ops.ResourceScatterAdd(resource=table.handle, indices=rows, updates=updates)
            return tf.exp(table.read_value())

    region, fallback = fallback_of("Exp", step, tf.TensorSpec([3], tf.int32), tf.TensorSpec([3, 2], tf.float32))
    assert len(region.inputs) == 2
    assert list(fallback.function("fallback").attr["_tf_stitch_written"].list.i) == [2]


@pytest.mark.parametrize(("op", "again"), [("GatherV2", True), ("ResourceGather", False), ("ReadVariableOp", False),
                                          ("ResourceScatterAdd", False)])
def test_what_reads_or_updates_variables_is_not_computed_again(op: str, again: bool) -> None:
    """Its variable may have another value by then."""
    assert _can_recompute(NodeDef(name="node", op=op)) is again
