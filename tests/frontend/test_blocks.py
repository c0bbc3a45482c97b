"""Blocks of pixels that move to batch or channels and back, and shifted axes, against TensorFlow's CPU kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import check, trace
from tests.frontend.values import normal

SPACE_TO_DEPTH, DEPTH_TO_SPACE = tf.raw_ops.SpaceToDepth, tf.raw_ops.DepthToSpace


def first(x: Any) -> Any:
    return tf.transpose(x, (0, 3, 1, 2))


def last(x: Any) -> Any:
    return tf.transpose(x, (0, 2, 3, 1))


@pytest.mark.parametrize(("op", "shape"), [(SPACE_TO_DEPTH, (2, 3, 4, 6)), (DEPTH_TO_SPACE, (2, 12, 2, 3))])
def test_channels_first(op: Callable[..., Any], shape: tuple[int, ...]) -> None:
    """As TensorFlow lays images out for GPUs; its CPU kernels take channels last alone."""
    check(lambda x: op(input=x, block_size=2, data_format="NCHW"), normal(shape), rtol=0, graphs=False,
          same_as=lambda x: first(op(input=last(x), block_size=2)))


def test_a_dilated_convolution_of_a_batch_of_unknown_size() -> None:
    """There and back the batch has the name that it had: what follows adds it to the argument."""
    def dilated(x: Any) -> Any:
        y = tf.space_to_batch(x, [4], [[0, 4]])
        return tf.batch_to_space(y * 2.0, [4], [[0, 4]]) + x

    x = normal((3, 8, 2))
    traced = check(dilated, x, specs=[tf.TensorSpec((None, 8, 2), tf.float32)], rtol=0)
    assert not traced.opaque()
    total = next(n for n in traced.imported.nodes.values() if n.op == "AddV2").outputs[0]
    argument = traced.imported.value(traced.concrete.graph.inputs[0].name)
    assert total is not None
    assert argument is not None
    assert total.type.shape == argument.type.shape


@pytest.mark.parametrize(("function", "spec", "reason"), [
    (lambda x: tf.roll(x, 1, 0), (None, 4), "decided at run time"),
    (lambda x: tf.space_to_batch(x, [2], [[0, 0]]), (2, None, 3), "decided at run time"),
    (lambda x: tf.batch_to_space(x, [3], [[0, 0]]), (None, 4, 3), "of a batch whose size"),
    (lambda x: tf.nn.depth_to_space(x, 2), (1, None, 4, 4), "decided at run time"),
])
def test_what_depends_on_sizes_that_are_unknown_stays(function: Any, spec: Any, reason: str) -> None:
    [said] = trace(function, tf.TensorSpec(spec, tf.float32)).opaque().values()
    assert said is not None
    assert reason in said


def test_shifts_that_are_unknown_stay() -> None:
    traced = trace(lambda x, n: tf.roll(x, n, 0), tf.TensorSpec((4,)), tf.TensorSpec((), tf.int32))
    assert list(traced.opaque().values()) == ["the shift is decided at run time"]


def test_a_shift_by_whole_turns_is_nothing() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    traced = check(lambda x: tf.roll(x, [3, -2], [1, 0]), x, rtol=0)
    rolled = next(n for n in traced.imported.nodes.values() if n.op == "Roll")
    assert rolled.outputs[0] is traced.imported.value(traced.concrete.graph.inputs[0].name)
