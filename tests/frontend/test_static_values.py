"""Shape arithmetic with sizes that run time decides, bound from the arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import Traced, check, trace
from tests.frontend.values import normal
from tf_stitch.ir.types import Symbol

BATCH = tf.TensorSpec([None, 6])
SEQUENCE = tf.TensorSpec([None, None, 8])

X6 = normal((4, 6))
X8 = normal((2, 5, 8))


def test_reshape_by_shape() -> None:
    check(lambda x: tf.reshape(x, [tf.shape(x)[0], 2, 3]), X6, specs=[BATCH])
    check(lambda x: tf.reshape(x, [-1, 3]), X6, specs=[BATCH])
    check(lambda x: tf.reshape(x, [-1]) + 1, X6, specs=[BATCH])
    check(lambda x: tf.reshape(tf.reshape(x, [-1, 8]) * 2, tf.shape(x)), X8, specs=[SEQUENCE])
    check(lambda x: tf.reshape(x, [tf.shape(x)[0] * tf.shape(x)[1], 8]), X8, specs=[SEQUENCE])


def test_reshape_keeps_the_symbol() -> None:
    traced = trace(lambda x: tf.reshape(x, [-1, 2, 3]), BATCH)
    value = traced.imported.value("Identity:0")
    assert value is not None
    assert value.type.shape == (Symbol("u_x_0_0"), 2, 3)


def test_attention_heads() -> None:
    def function(x):
        batch, length = tf.shape(x)[0], tf.shape(x)[1]
        heads = tf.transpose(tf.reshape(x, [batch, length, 2, 4]), [0, 2, 1, 3])
        return tf.reshape(tf.transpose(heads * 2, [0, 2, 1, 3]), [batch, length, 8])

    check(function, X8, specs=[SEQUENCE])


@pytest.mark.parametrize("axes", [None, [0], [-1], [0, 1], [1, 2]])
@pytest.mark.parametrize("keep", [True, False])
def test_gradient_of_mean(axes, keep: bool) -> None:
    def function(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.square(tf.reduce_mean(x, axes, keepdims=keep)))
        return tape.gradient(y, x)

    check(function, X8, specs=[SEQUENCE])


def test_gradient_of_broadcasts() -> None:
    def function(x, bias, row):
        with tf.GradientTape() as tape:
            tape.watch([x, bias, row])
            y = tf.reduce_sum(tf.square(x * bias + row[:, tf.newaxis] / (x * x + 1.0)))
        return tape.gradient(y, [x, bias, row])

    check(lambda x, b: function(x, b, tf.reduce_mean(x, -1)), X6, normal((6,), seed=1),
          specs=[BATCH, tf.TensorSpec([6])])


def test_layer_norm_forward_and_backward() -> None:
    def function(x, gamma, beta):
        with tf.GradientTape() as tape:
            tape.watch([x, gamma, beta])
            mean, variance = tf.nn.moments(x, [-1], keepdims=True)
            y = (x - mean) * tf.math.rsqrt(variance + 1e-3) * gamma + beta
            loss = tf.reduce_mean(tf.nn.softmax(y) * y)
        return [y, loss, *tape.gradient(loss, [x, gamma, beta])]

    check(function, X8, normal((8,), seed=1), normal((8,), seed=2),
          specs=[SEQUENCE, tf.TensorSpec([8]), tf.TensorSpec([8])])


def test_sizes_as_values() -> None:
    check(lambda x: tf.reduce_sum(x) / tf.cast(tf.shape(x)[0], tf.float32), X6, specs=[BATCH])
    check(lambda x: tf.reduce_sum(x) / tf.cast(tf.size(x), tf.float32), X6, specs=[BATCH])
    check(lambda x: x + tf.cast(tf.range(tf.shape(x)[0]), tf.float32)[:, tf.newaxis], X6, specs=[BATCH])
    check(lambda x: x + tf.zeros_like(x) + tf.ones([tf.shape(x)[0], 1]), X6, specs=[BATCH])
    check(lambda x: tf.fill(tf.shape(x), 2.0) * x, X6, specs=[BATCH])
    check(lambda x: x + tf.tile(tf.ones([1, 6]), [tf.shape(x)[0], 1]), X6, specs=[BATCH])
    check(lambda x: tf.broadcast_to(x[:, :1], tf.shape(x)), X6, specs=[BATCH])


def test_an_empty_batch_is_not_one() -> None:
    """max(n, 1) is exact for n = 0."""
    def function(x):
        n = tf.maximum(tf.shape(x)[0], 1)
        return tf.reduce_sum(x) / tf.cast(n, tf.float32)

    check(function, X6[:0], specs=[BATCH])
    check(function, X6, specs=[BATCH])


def test_slices_of_unknown_sizes() -> None:
    check(lambda x: x[:, :3] + x[:, 3:], X6, specs=[BATCH])
    check(lambda x: x[:, 0, tf.newaxis], X6, specs=[BATCH])
    check(lambda x: x[1], X6, specs=[BATCH])
    assert trace(lambda x: x[-1], BATCH).opaque()
    assert trace(lambda x: x[::-1], BATCH).opaque()


def test_what_run_time_decides_stays() -> None:
    traced = trace(lambda x, n: tf.reshape(x, tf.stack([n, n])), BATCH, tf.TensorSpec([], tf.int32))
    assert any("decided at run time" in reason for reason in traced.opaque().values())


def named(traced: Traced, op: str) -> tuple[Any, ...]:
    """The shape of the one node of that op."""
    [node] = [n for n in traced.imported.nodes.values() if n.op == op]
    assert node.outputs[0] is not None
    return node.outputs[0].type.shape


@pytest.mark.parametrize("axes", [[0, 1, 2], [3], [-1, 1]])
def test_axes_in_another_layout(axes: list[int]) -> None:
    """As TensorFlow's layout optimizer asks for them."""
    def function(x):
        there = tf.raw_ops.DataFormatDimMap(x=tf.constant(axes), src_format="NHWC", dst_format="NCHW")
        return tf.raw_ops.Sum(input=x, axis=there)

    check(function, normal((2, 3, 4, 5)), graphs=False)


@pytest.mark.parametrize("last", [True, False])
def test_sizes_in_another_layout(last: bool) -> None:
    def function(x):
        sizes = tf.constant([2, 4, 5, 3]) if last else tf.shape(x)
        source, target = ("NHWC", "NCHW") if last else ("NCHW", "NHWC")
        there = tf.raw_ops.DataFormatVecPermute(x=sizes, src_format=source, dst_format=target)
        pair = tf.raw_ops.DataFormatVecPermute(x=tf.constant([2, 3]), src_format=source, dst_format=target)
        return tf.reshape(x, there) * 2, tf.tile(x[:, 0, :, 0], pair) + 1

    check(function, normal((2, 3, 4, 5)), graphs=False)


def test_random_tensors_have_the_sizes_of_what_they_are_drawn_for() -> None:
    traced = trace(lambda x: x * tf.random.uniform(tf.shape(x)) + tf.random.stateless_normal(tf.shape(x), [1, 2]),
                   SEQUENCE)
    assert named(traced, "RandomUniform") == named(traced, "Placeholder")
    assert named(traced, "StatelessRandomNormalV2") == named(traced, "Placeholder")
    assert not [o for o in traced.opaque().values() if "differ" in o]


CLASSES = np.array([[1, 3, 3], [0, 2, 9]], np.int32)


@pytest.mark.parametrize("arrays", [CLASSES, CLASSES[:, :0], CLASSES[0]], ids=["rows", "empty", "vector"])
def test_counts_of_as_many_classes_whatever_the_values(arrays: Any) -> None:
    """As Keras' preprocessing layers count them."""
    axis = -1 if arrays.ndim == 2 else None
    check(lambda x: tf.math.bincount(x, minlength=5, maxlength=5, axis=axis), arrays, rtol=0)


def test_counts_of_as_many_classes_as_values_say_stay() -> None:
    traced = trace(lambda x: tf.math.bincount(x, minlength=3, maxlength=5, axis=-1), tf.TensorSpec([2, 3], tf.int32))
    assert "the size of a bincount is decided at run time" in traced.opaque().values()


def test_axes_that_are_left_as_they_are_keep_their_names() -> None:
    traced = trace(lambda x: tf.pad(x[:, :-1], [[0, 0], [1, 0], [0, 0]]), SEQUENCE)
    batch, length, _ = named(traced, "Placeholder")
    for op in ("StridedSlice", "Pad"):
        shape = named(traced, op)
        assert shape[::2] == (batch, 8)
        assert shape[1] != length, "of no column comes one"
