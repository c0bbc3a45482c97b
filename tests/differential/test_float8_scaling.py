"""What is quantised to float8 in a half type, as Keras does: every level has the bits of TensorFlow's ops, each of
which rounds to the half. A number or a scale that was not rounded gives another float8 for one element in fifty."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from tests.differential.gpu_run import run_gpu
from tests.differential.runner import CPU, H200, Values, compiled, region, run_host, run_kernel_ir
from tests.support.cuda_on_cpu import Adversary, Order, run_on_cpu
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.runtime.device_run import gpu_is_here

B = Builder()
ROWS, COLUMNS = 48, 64
HALVES, FLOAT8 = (DType.F16, DType.BF16), (DType.F8_E4M3FN, DType.F8_E5M2)
ON_GPU = pytest.param("GPU", marks=[pytest.mark.gpu, pytest.mark.skipif(not gpu_is_here(), reason="no GPU")])
LEVELS = ("tensor IR", "kernel IR", "C", "CUDA", ON_GPU)
VALUES: Values = {"x": np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32),
                  "bias": np.random.default_rng(1).standard_normal(COLUMNS).astype(np.float32),
                  "scale": np.float32(0.00873).reshape(())}


def largest(float8: DType) -> float:
    return float(ml_dtypes.finfo(float8.numpy).max) if float8 is DType.F8_E4M3FN else 2.0**12


def keras_graph(half: DType, float8: DType) -> TensorGraph:
    """A layer's output, quantised and dequantised, and the largest of it, as Keras' float8 layers compute them."""
    x, bias, scale = (B.input(key, DType.F32, value.shape) for key, value in VALUES.items())
    y = B.maximum(B.add(B.cast(x, half), B.cast(bias, half)), B.constant(0, half))
    divisor = B.cast(scale, half)
    clipped = B.maximum(B.minimum(B.div(y, divisor), B.constant(largest(float8), half)),
                        B.constant(-largest(float8), half))
    scaled = B.mul(B.cast(B.cast(clipped, float8), half), divisor)
    most = B.cast(B.reshape(B.reduce(OpKind.MAX, B.op(OpKind.ABS, y), [1]), (ROWS, 1)), DType.F32)
    return region("layer", [scaled, most])


def by_tensorflow(half: DType, float8: DType) -> list[np.ndarray]:
    """The same by TensorFlow's kernels, op by op."""
    with tf.device("/CPU:0"):
        x, bias, divisor = (tf.cast(v, half.value) for v in VALUES.values())
        y = tf.maximum(x + bias, tf.cast(0, half.value))
        clipped = tf.clip_by_value(y / divisor, tf.cast(-largest(float8), half.value),
                                   tf.cast(largest(float8), half.value))
        scaled = tf.cast(tf.cast(clipped, float8.value), half.value) * divisor
        return [scaled.numpy(), tf.cast(tf.reduce_max(tf.abs(y), 1, keepdims=True), tf.float32).numpy()]


def run(level: str, graph: TensorGraph) -> list[np.ndarray]:
    if level == "tensor IR":
        got = interpret(graph, VALUES)
    elif level == "kernel IR":
        got = run_kernel_ir(graph, compiled(graph, CPU), VALUES)
    elif level == "C":
        got = run_host(graph, compiled(graph, CPU), VALUES)
    elif level == "GPU":
        got = run_gpu(graph, compiled(graph, H200), VALUES)
    else:
        got = run_on_cpu(graph, compiled(graph, H200), VALUES, Adversary(Order.ABREAST))
    return [got[key] for key, _ in graph.outputs]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("float8", FLOAT8)
@pytest.mark.parametrize("half", HALVES)
def test_keras_quantises_numbers_and_scales_of_halves(half: DType, float8: DType, level: str) -> None:
    want = by_tensorflow(half, float8)
    for got, value in zip(run(level, keras_graph(half, float8)), want, strict=True):
        np.testing.assert_array_equal(got.astype(np.float64), value.astype(np.float64))


def _dequantised(x: Node, scale: Node, half: DType) -> Node:
    return B.mul(B.broadcast(B.cast(x, half), (3, *x.type.shape)), B.cast(scale, half))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("half", HALVES)
def test_a_kernel_that_dequantises_alone_rounds_the_scale(half: DType, level: str) -> None:
    """As the one that quantised did."""
    x = VALUES["x"].astype(ml_dtypes.float8_e4m3fn)
    graph = region("dequantise", [_dequantised(B.input("x", DType.F8_E4M3FN, x.shape), B.input("scale", DType.F32, ()),
                                               half)])
    values: Values = {"x": x, "scale": VALUES["scale"]}
    want = x.astype(half.numpy) * values["scale"].astype(half.numpy)
    runs = {"tensor IR": lambda: interpret(graph, values),
            "kernel IR": lambda: run_kernel_ir(graph, compiled(graph, CPU), values),
            "C": lambda: run_host(graph, compiled(graph, CPU), values),
            "CUDA": lambda: run_on_cpu(graph, compiled(graph, H200), values, Adversary(Order.ABREAST)),
            "GPU": lambda: run_gpu(graph, compiled(graph, H200), values)}
    np.testing.assert_array_equal(runs[level]()["o0"], np.broadcast_to(want, (3, *x.shape)))
