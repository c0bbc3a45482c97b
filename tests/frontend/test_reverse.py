"""Axes read backwards, against TensorFlow's CPU kernels."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import check, trace
from tests.frontend.values import normal
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.interpreter import interpret


@pytest.mark.parametrize("axes", [[0], [1], [-1], [0, 2], [2, 1, 0]])
@pytest.mark.parametrize("shape", [(None, None, None), (2, None, 4), (None, 3, 4), (2, 3, None), (2, 3, 4)])
def test_axes_of_unknown_sizes(axes: list[int], shape: tuple[int | None, ...]) -> None:
    check(lambda x: tf.reverse(x, axes), normal((2, 3, 4)), specs=[tf.TensorSpec(shape, tf.float32)], rtol=0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int64", "bool"])
@pytest.mark.parametrize("lengths", [np.array([4, 0, 3], np.int32), np.array([1, 5, 2], np.int64)])
def test_reverse_sequence(dtype: str, lengths: Any) -> None:
    check(lambda x, n: tf.reverse_sequence(x, n, seq_axis=1, batch_axis=0), normal((3, 5, 2), dtype), lengths, rtol=0)


@pytest.mark.parametrize(("sequence", "batch"), list(itertools.permutations(range(3), 2)))
def test_axes_of_reverse_sequence(sequence: int, batch: int) -> None:
    shape = (4, 5, 6)
    lengths = np.random.default_rng(0).integers(0, shape[sequence] + 1, shape[batch]).astype(np.int32)
    run = partial(tf.reverse_sequence, seq_axis=sequence, batch_axis=batch)
    check(run, normal(shape), lengths, rtol=0)
    check(run, normal(shape), lengths, rtol=0,
          specs=[tf.TensorSpec([None, None, None], tf.float32), tf.TensorSpec([None], tf.int32)])
    flat = normal(tuple(shape[a] for a in sorted((sequence, batch))))
    first = 0 if sequence < batch else 1
    check(partial(tf.reverse_sequence, seq_axis=first, batch_axis=1 - first), flat, lengths, rtol=0)


def test_gradient_of_reverse_sequence() -> None:
    def gradient(x: Any, n: Any, dy: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reverse_sequence(x, n, seq_axis=1, batch_axis=0)
        return tape.gradient(y, x, dy)

    check(gradient, normal((2, 4, 3)), np.array([3, 4], np.int32), normal((2, 4, 3)), rtol=0)


@pytest.mark.parametrize("length", [-1, 6])
def test_a_length_that_cannot_be(length: int) -> None:
    """Is an error, as in TensorFlow's CPU kernel, also where another sequence has what would be read."""
    traced = trace(lambda x, n: tf.reverse_sequence(x, n, seq_axis=1), tf.TensorSpec([3, 5]),
                   tf.TensorSpec([3], tf.int32))
    node = traced.imported.value(traced.concrete.graph.outputs[0].name)
    assert node is not None
    x, n = (t.name for t in traced.concrete.graph.inputs)
    with pytest.raises(IndexError):
        interpret(TensorGraph("g", [("y", node)]), {x: normal((3, 5)), n: np.array([1, length, 2], np.int32)})
