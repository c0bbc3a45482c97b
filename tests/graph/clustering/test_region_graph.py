"""Regions as graphs of their own."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import trace
from tf_stitch.errors import UnsupportedError
from tf_stitch.graph.clustering.region_graph import cut_region
from tf_stitch.ir.graph import key_of
from tf_stitch.ir.interpreter import interpret


@pytest.mark.parametrize("written", [False, True])
def test_reads_are_one_input_if_the_variable_is_only_read(written: bool) -> None:
    variable = tf.Variable(np.zeros(4, np.float32))

    def step(x: tf.Tensor) -> tf.Tensor:
        before = variable.read_value()
        if written:
            variable.assign_add(x)
        after = variable.read_value()
        with tf.name_scope("region"):
            return before * x + after

    imported = trace(step, tf.TensorSpec([4], tf.float32)).imported
    members = [name for name in imported.nodes if name.startswith("region/")]
    (result,) = (name for name in members if imported.nodes[name].op == "AddV2")
    region = cut_region(imported, members, [f"{result}:0"])
    reads = [tensor for tensor in region.inputs if "ReadVariableOp" in tensor]
    assert len(reads) == (2 if written else 1)


@pytest.mark.parametrize("read_first", [False, True])
def test_a_variable_that_is_overwritten_without_a_look(read_first: bool) -> None:
    """It is an argument that nothing is computed from; who reads it later reads what it was given."""
    variable = tf.Variable(np.zeros(4, np.float32))

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.name_scope("region"):
            if read_first:
                variable.assign_add(x)
            variable.assign(x * 2.0)
            return x + variable.read_value()

    imported = trace(step, tf.TensorSpec([4], tf.float32)).imported
    members = [name for name in imported.nodes if name.startswith("region/")]
    (result,) = (name for name in members if imported.nodes[name].op == "AddV2")
    region = cut_region(imported, members, [f"{result}:0"])
    assert region.variable_keys == ("v0",)
    assert [key_of(node) for node in region.graph.unread] == ["v0"]
    given = np.arange(4, dtype=np.float32)
    results = interpret(region.graph, {"i0": given, "v0": np.full(4, np.nan, np.float32)})
    np.testing.assert_array_equal(results["o0"], given * 3)
    np.testing.assert_array_equal(results["v0"], given * 2)


def test_a_variable_of_unknown_shape_is_not_overwritten_without_a_look() -> None:
    variable = tf.Variable(np.zeros(4, np.float32), shape=tf.TensorShape(None))

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.name_scope("region"):
            variable.assign(x * 2.0)
            return x + variable.read_value()

    imported = trace(step, tf.TensorSpec([4], tf.float32)).imported
    members = [name for name in imported.nodes if name.startswith("region/")]
    with pytest.raises(UnsupportedError, match="does not read"):
        cut_region(imported, members, [])


def attention_region(mask: np.ndarray) -> list[str]:
    """What a region of a softmax reads that masks its scores by a constant."""

    def step(x: tf.Tensor) -> tf.Tensor:
        seen = tf.constant(mask)
        with tf.name_scope("region"):
            kept = tf.where(seen, x, -1e9) if seen.dtype == tf.bool else x + seen
            return tf.nn.softmax(kept)

    imported = trace(step, tf.TensorSpec(mask.shape, tf.float32)).imported
    members = [name for name in imported.nodes if name.startswith("region/")]
    (result,) = (name for name in members if imported.nodes[name].op == "Softmax")
    return sorted(cut_region(imported, members, [f"{result}:0"]).inputs)


CAUSAL = np.tri(100, 100, dtype=bool)
REPEATED = np.ascontiguousarray(np.broadcast_to(CAUSAL, (2, 3, 100, 100)))


@pytest.mark.parametrize("mask", [CAUSAL, REPEATED, ~REPEATED, np.where(REPEATED, 0, -1e9).astype(np.float32)],
                         ids=["matrix", "repeated", "inverted", "added"])
def test_a_causal_mask_is_made_in_the_region(mask: np.ndarray) -> None:
    """However large: its elements are known by their positions."""
    assert attention_region(mask) == ["x:0"]


@pytest.mark.parametrize("size", [60, 100, 300])
def test_another_large_constant_is_read(size: int) -> None:
    mask = np.random.default_rng(0).random((size, size)) < 0.5
    assert attention_region(mask) == (["x:0"] if size * size <= 4096 else ["Const:0", "x:0"])


def test_positions_of_a_size_that_changes_come_from_outside() -> None:
    """Nothing else shows the size."""

    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        numbers = tf.range(tf.shape(x)[0])
        with tf.name_scope("region"):
            return tf.cast(numbers, tf.float32) * y + 1.0

    imported = trace(step, tf.TensorSpec([None], tf.float32), tf.TensorSpec([], tf.float32)).imported
    members = [name for name in imported.nodes if name.startswith("region/")]
    (result,) = (name for name in members if imported.nodes[name].op == "AddV2")
    assert len(cut_region(imported, members, [f"{result}:0"]).inputs) == 2
