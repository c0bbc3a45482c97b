"""Diagonals against TensorFlow's, and what stays a TensorFlow op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tests.frontend.check import check, trace
from tests.frontend.values import normal


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "bool"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 5), (2, 1, 5, 3)])
def test_diagonals(shape: tuple[int, ...], dtype: str) -> None:
    x, diagonal = normal(shape, dtype), normal((*shape[:-2], min(shape[-2:])), dtype, seed=1)
    check(tf.linalg.diag_part, x, rtol=0)
    check(tf.linalg.set_diag, x, diagonal, rtol=0)
    check(lambda d: tf.linalg.diag(d, num_rows=shape[-2], num_cols=shape[-1], padding_value=diagonal.ravel()[0]),
          diagonal, rtol=0)
    check(tf.linalg.diag, diagonal, rtol=0)


def test_the_gradient_of_a_contrastive_loss() -> None:
    def gradient(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = -tf.reduce_mean(tf.linalg.diag_part(tf.nn.log_softmax(x)))
        return tape.gradient(loss, x)

    check(gradient, normal((6, 6)))


@pytest.mark.parametrize("function", [
    lambda x: tf.linalg.diag_part(x, k=1), lambda x: tf.linalg.diag_part(x, k=(-1, 0)),
    lambda x: tf.linalg.diag(x, k=-1),
    lambda x: tf.linalg.set_diag(x, x[0, 1:], k=1)])
def test_others_are_tensorflows(function: Callable[..., Any]) -> None:
    imported = trace(function, tf.TensorSpec([4, 4])).imported
    [reason] = [node.reason for node in imported.nodes.values() if "Diag" in node.op]
    assert reason is not None
