"""Poolings and their gradients against TensorFlow's kernels for CPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.differential.runner import check_all
from tests.frontend.check import LIBRARY_ON, check, trace, types_of_graph
from tf_stitch.frontend.tensorflow.importer import import_graph
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.interpreter import interpret

RNG = np.random.default_rng(0)
PADDINGS: list[Any] = ["SAME", "VALID"]
WINDOWS = [(2, 2), (3, 2), (3, 1), ((2, 3), (3, 2)), (1, 2), ((5, 4), 1)]
"""Window and strides."""


def images(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def equal_images(*shape: int, dtype: Any = np.float32) -> Any:
    """Of few values, so that a window has its largest several times."""
    return RNG.integers(-2, 2, shape).astype(dtype)


def pooled(pool: Any, window: Any, strides: Any, padding: Any) -> Any:
    """Both the pooling and the gradient of a function of it."""

    def run(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = pool(x, window, strides, padding)
            loss = tf.reduce_sum(y * tf.sin(3 * y))
        return y, tape.gradient(loss, x)

    return run


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize(("window", "strides"), WINDOWS)
def test_max(window: Any, strides: Any, padding: Any) -> None:
    check(pooled(tf.nn.max_pool2d, window, strides, padding), images(2, 9, 8, 3))


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize(("window", "strides"), WINDOWS)
def test_the_first_of_equals_has_the_gradient(window: Any, strides: Any, padding: Any) -> None:
    check(pooled(tf.nn.max_pool2d, window, strides, padding), equal_images(2, 9, 8, 3))


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize(("window", "strides"), WINDOWS)
def test_average(window: Any, strides: Any, padding: Any) -> None:
    check(pooled(tf.nn.avg_pool2d, window, strides, padding), images(2, 9, 8, 3))


def test_explicit_padding() -> None:
    check(pooled(tf.nn.max_pool2d, 3, 2, [[0, 0], [2, 1], [0, 2], [0, 0]]), images(2, 9, 8, 3))


@pytest.mark.parametrize("dtype", [tf.float64, tf.float16, tf.bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("pool", [tf.nn.max_pool2d, tf.nn.avg_pool2d])
def test_types(pool: Any, dtype: tf.DType) -> None:
    check(pooled(pool, 3, 2, "SAME"), images(1, 5, 6, 3, dtype=dtype.as_numpy_dtype))


@pytest.mark.parametrize("pool", [tf.nn.max_pool2d, tf.nn.avg_pool2d])
def test_of_the_whole_image(pool: Any) -> None:
    check(lambda x: pool(x, (30, 20), 1, "VALID"), images(2, 30, 20, 3))


def test_gradient_of_a_mean_of_the_whole_image() -> None:
    check(pooled(tf.nn.avg_pool2d, (30, 20), 1, "VALID"), images(2, 30, 20, 3))


def test_of_volumes() -> None:
    check(pooled(tf.nn.avg_pool3d, 2, 2, "SAME"), images(2, 5, 6, 3, 2))
    check(pooled(tf.nn.max_pool3d, 3, 2, "SAME"), images(2, 5, 6, 3, 2))
    check(pooled(tf.nn.max_pool3d, (1, 2, 3), (2, 2, 1), "VALID"), images(2, 5, 6, 4, 2))


def test_of_equal_elements_of_volumes_the_first_has_the_gradient() -> None:
    """As on GPUs; TensorFlow's kernel for CPUs gives it to all of them."""
    x, grad = equal_images(2, 6, 4, 6, 2), images(2, 3, 2, 2, 2)
    settings = {"ksize": [1, 2, 2, 3, 1], "strides": [1, 2, 2, 3, 1], "padding": "VALID"}

    def gradient(x: Any, grad: Any) -> Any:
        y = tf.raw_ops.MaxPool3D(input=x, **settings)
        return tf.raw_ops.MaxPool3DGrad(orig_input=x, orig_output=y, grad=grad, **settings)

    def by_windows(x: Any, grad: Any) -> Any:
        windows = x.numpy().reshape(2, 3, 2, 2, 2, 2, 3, 2).transpose(0, 1, 3, 5, 7, 2, 4, 6).reshape(2, 3, 2, 2, 2, 12)
        first = np.eye(12, dtype=np.float32)[windows.argmax(-1)] * grad.numpy()[..., None]
        return tf.constant(first.reshape(2, 3, 2, 2, 2, 2, 2, 3).transpose(0, 1, 5, 2, 6, 3, 7, 4).reshape(x.shape))

    check(gradient, x, grad, same_as=by_windows)


def test_window_as_an_input() -> None:
    def run(x: Any) -> Any:
        y = tf.raw_ops.MaxPoolV2(input=x, ksize=[1, 3, 2, 1], strides=[1, 2, 1, 1], padding="SAME")
        return y, tf.raw_ops.MaxPoolGradV2(orig_input=x, orig_output=y, grad=y, ksize=[1, 3, 2, 1],
                                           strides=[1, 2, 1, 1], padding="SAME")

    check(run, images(2, 7, 6, 3))


def test_what_is_not_a_number_is_passed_over() -> None:
    x = images(1, 6, 6, 2)
    x[0, 1, 1, 0] = x[0, 0, 3, 1] = np.nan
    check(lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"), x)


def test_a_batch_of_unknown_size() -> None:
    check(pooled(tf.nn.max_pool2d, 3, 2, "SAME"), images(3, 5, 6, 2), specs=[tf.TensorSpec((None, 5, 6, 2))])


@pytest.mark.parametrize("op", ["MaxPool", "AvgPool", "MaxPoolGrad", "AvgPoolGrad"])
def test_channels_first(op: str) -> None:
    """TensorFlow's kernels for CPUs have channels last."""
    x, g = images(2, 3, 7, 6), images(2, 3, 4, 6)

    def run(x: Any, g: Any, data_format: str) -> Any:
        sizes = {name: [1, 1, *size] if data_format == "NCHW" else [1, *size, 1]
                 for name, size in (("ksize", (3, 2)), ("strides", (2, 1)))}
        settings = {**sizes, "padding": "SAME", "data_format": data_format}
        y = tf.raw_ops.MaxPool(input=x, **settings)
        if op == "MaxPool":
            return y
        if op == "AvgPool":
            return tf.raw_ops.AvgPool(value=x, **settings)
        if op == "MaxPoolGrad":
            return tf.raw_ops.MaxPoolGrad(orig_input=x, orig_output=y, grad=g, **settings)
        return tf.raw_ops.AvgPoolGrad(orig_input_shape=x.shape, grad=g, **settings)

    with tf.Graph().as_default() as graph:
        inputs = [tf.compat.v1.placeholder(tf.float32, a.shape, name) for a, name in ((x, "x"), (g, "g"))]
        out = run(*inputs, "NCHW")
    imported = import_graph(graph.as_graph_def(), types_of_graph(graph), library_on=LIBRARY_ON)
    node = imported.value(out.name)
    assert node is not None, imported.nodes[out.op.name].reason
    got = interpret(TensorGraph("g", [("o", node)]), {"x:0": x, "g:0": g})["o"]
    want = run(*(tf.transpose(a, [0, 2, 3, 1]) for a in (x, g)), "NHWC")
    np.testing.assert_allclose(got, tf.transpose(want, [0, 3, 1, 2]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("run", "reason"), [
    (lambda x: tf.raw_ops.MaxPool(input=x, ksize=[1, 1, 1, 2], strides=[1, 1, 1, 2], padding="VALID"),
     "windows [1, 1, 1, 2]"),
    (lambda x: tf.nn.max_pool2d(x, (28, 2), 2, "SAME"),
     "28 elements that a maximum is of"),
    (lambda x: tf.nn.avg_pool2d(x, (28, 2), 2, "SAME"), "28 elements of an axis that a mean is of")])
def test_what_stays_tensorflows(run: Any, reason: str) -> None:
    assert reason in trace(run, tf.TensorSpec((2, 30, 20, 4))).opaque().values()


@pytest.mark.parametrize("pool", [tf.nn.max_pool2d, tf.nn.avg_pool2d])
@pytest.mark.parametrize(("window", "strides", "padding"), [(3, 2, "SAME"), (2, 2, "VALID"), ((3, 2), (1, 3), "SAME")])
def test_kernels(pool: Any, window: Any, strides: Any, padding: str) -> None:
    """Of both devices, forward and backward."""
    traced = trace(pooled(pool, window, strides, padding), tf.TensorSpec((2, 7, 6, 8)))
    outputs = [(t.name, traced.imported.value(t.name)) for t in traced.concrete.graph.outputs]
    check_all(TensorGraph("g", [(name, node) for name, node in outputs if node is not None]), interpret_gpu=True,
              cuda=False)


def test_gradients_of_uint64_stay_tensorflows() -> None:
    """The IR moves numbers of this type, and does not add them."""
    def gradient(x: Any) -> Any:
        return tf.raw_ops.MaxPoolGrad(orig_input=x, orig_output=x, grad=x, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1],
                                      padding="SAME")

    assert len(trace(gradient, tf.TensorSpec((2, 4, 4, 3), tf.uint64)).opaque()) == 1
