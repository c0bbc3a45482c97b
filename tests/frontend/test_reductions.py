"""Reductions, softmax and losses against TensorFlow's CPU kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.differential.runner import compiled, run_kernel_ir
from tests.frontend.check import check, trace
from tests.frontend.test_random import as_region
from tests.frontend.values import FLOATS, NUMBERS, normal
from tf_stitch.device.spec import H200
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_kinds import Category

RAW = tf.raw_ops
AXES = ([-1], [0], [0, 2], [], [0, 1, 2])


@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Min", "Prod"])
def test_reduction(op: str) -> None:
    for axes in AXES:
        for keep in (False, True):
            check(lambda x, a=axes, k=keep: getattr(RAW, op)(input=x, axis=np.array(a, np.int32), keep_dims=k),
                  normal((2, 3, 4)))
    for dtype in NUMBERS:
        check(lambda x: getattr(RAW, op)(input=x, axis=1), normal((3, 5), dtype))
    check(lambda x: getattr(RAW, op)(input=x, axis=0), normal((0, 3)), graphs=False)


def test_mean_of_many_halves_does_not_overflow() -> None:
    """Here TensorFlow's CPU kernel does overflow; sums are kept in float32 instead, as on a GPU."""
    x = np.full((2, 4096), 40, np.float16)
    traced = trace(lambda x: tf.reduce_mean(x, -1), tf.TensorSpec(x.shape, x.dtype))
    value = interpret(TensorGraph("mean", [("mean", traced.imported.value("Identity:0"))]), {"x:0": x})["mean"]
    np.testing.assert_array_equal(value, [40, 40])


@pytest.mark.parametrize("op", ["Max", "Min", "Sum"])
def test_reduction_of_nan(op: str) -> None:
    x = np.array([[np.nan, 1, 2], [1, np.nan, 2], [1, np.inf, -np.inf], [-np.inf] * 3], np.float32)
    check(lambda x: getattr(RAW, op)(input=x, axis=1), x)


def test_logical_reductions() -> None:
    x = normal((3, 4)) > 0.5
    check(lambda x: (tf.reduce_all(x, 0), tf.reduce_any(x, 1, keepdims=True), tf.reduce_all(x)), x)
    check(lambda x: (tf.reduce_all(x, 0), tf.reduce_any(x, 0)), x[:0])


def test_norms() -> None:
    check(lambda x: (RAW.EuclideanNorm(input=x, axis=1), RAW.L2Loss(t=x)), normal((3, 4)))
    check(lambda x: RAW.L2Loss(t=x), normal((3, 4), "float16"))


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_arg_reduction(op: str) -> None:
    for dtype in NUMBERS:
        for axis in (0, -1):
            check(lambda x, a=axis: getattr(RAW, op)(input=x, dimension=a), normal((4, 6), dtype))
    check(lambda x: getattr(RAW, op)(input=x, dimension=1, output_type=tf.int32), normal((4, 6), "int32") % 3)
    nan = np.array([[np.nan, 1, 2], [1, np.nan, 2], [1, 2, np.nan], [np.nan] * 3, [np.nan, -1, -2]], np.float32)
    check(lambda x: getattr(RAW, op)(input=x, dimension=1), nan, graphs=False)


@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax(dtype: str) -> None:
    check(lambda x: (tf.nn.softmax(x), tf.nn.log_softmax(x)), normal((3, 5), dtype))
    check(lambda x: tf.nn.softmax(x, axis=0), normal((3, 2, 5), dtype))


def test_softmax_of_special_values() -> None:
    x = np.array([[-np.inf, 1, 2], [1e4, -1e4, 0], [-1e9, -1e9, -1e9]], np.float32)
    check(lambda x: tf.nn.softmax(x), x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_cross_entropy(dtype: str) -> None:
    labels = tf.nn.softmax(normal((4, 6), dtype, 1)).numpy()
    check(lambda x, y: RAW.SoftmaxCrossEntropyWithLogits(features=x, labels=y), normal((4, 6), dtype), labels)
    check(lambda x, y: RAW.SoftmaxCrossEntropyWithLogits(features=x, labels=y), normal((4, 6), dtype), labels[:1])


@pytest.mark.parametrize("labels", ["int32", "int64"])
def test_sparse_cross_entropy(labels: str) -> None:
    y = np.array([0, 5, 2, 2]).astype(labels)
    check(lambda x, y: RAW.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=y), normal((4, 6)), y)
    x = normal((4, 6))
    x[0, 3] = -np.inf
    check(lambda x, y: RAW.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=y), x, y)


def test_losses_read_the_wanted_logits_alone() -> None:
    """Nothing but the maximum and the sum of exponentials is reduced over a row."""
    features, labels = tf.TensorSpec([4, 6]), tf.TensorSpec([4], tf.int64)
    traced = trace(lambda x, y: RAW.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=y)[0], features, labels)
    loss = traced.imported.value(traced.concrete.graph.outputs[0].name)
    assert loss is not None
    nodes = TensorGraph("loss", [("loss", loss)]).nodes()
    assert sorted(n.kind.value for n in nodes if n.category is Category.REDUCTION) == ["max", "sum"]


@pytest.mark.parametrize("labels", ["int32", "int64"])
def test_labels_of_no_class_give_nan_on_a_gpu(labels: str) -> None:
    """Also one that 32 bits would make a class of."""
    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        return RAW.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=y)

    x, y = normal((4, 6)), np.array([0, -1, 6, 5 + (1 << 32) if labels == "int64" else 1 << 20]).astype(labels)
    graph, values = as_region(function, [x, y])
    loss, gradient = run_kernel_ir(graph, compiled(graph, H200), values).values()
    want_loss, want = RAW.SparseSoftmaxCrossEntropyWithLogits(features=x[:1], labels=y[:1])
    np.testing.assert_allclose(loss[:1], want_loss, rtol=1e-5)
    np.testing.assert_allclose(gradient[:1], want, rtol=1e-5, atol=1e-6)
    assert np.isnan(loss[1:]).all()
    assert np.isnan(gradient[1:]).all()


def test_loss_gradients() -> None:
    def function(x, y):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, x))
        return loss, tape.gradient(loss, x)

    check(function, normal((4, 6)), np.array([0, 5, 2, 2]))
