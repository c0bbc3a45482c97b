"""What TensorFlow's remapper makes, against the kernels that run it once it is rewritten for oneDNN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_library
from tensorflow.python.util import _pywrap_util_port

from tests.frontend.check import LIBRARY_ON, types_of_graph
from tests.frontend.values import normal, positive
from tf_stitch.frontend.tensorflow.importer import ImportedGraph, import_graph
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.interpreter import interpret

Given = Mapping[str, Any]
ACTIVATIONS = ("Relu", "Relu6", "Elu", "LeakyRelu")
AFTER_BIAS: tuple[tuple[str, ...], ...] = ((), *((name,) for name in ACTIVATIONS))
OF_CONVOLUTIONS = [
    *(("BiasAdd", *rest) for rest in (*AFTER_BIAS, ("_MklSwish",), ("_FusedHardSwish",), ("Add",), ("Add", "Relu"),
                                      ("Add", "Elu"), ("Add", "LeakyRelu"))),
    *(("FusedBatchNorm", *rest) for rest in AFTER_BIAS)]
WINDOWS = {"strides": [1, 1, 1, 1], "padding": "SAME", "data_format": "NHWC", "dilations": [1, 1, 1, 1]}
NUMBERS = {"epsilon": 1e-3, "leakyrelu_alpha": 0.3}


def graph_of(op: str, given: Given, attrs: Given) -> tuple[tf.Graph, dict[str, Any], list[Any]]:
    """A graph of one op: what its placeholders get, and its outputs."""
    fed: dict[str, Any] = {}

    def placed(value: Any) -> Any:
        tensor = tf.compat.v1.placeholder(value.dtype, value.shape)
        fed[tensor.name] = value
        return tensor

    with tf.Graph().as_default() as graph:
        inputs = {name: [placed(v) for v in value] if isinstance(value, list) else placed(value)
                  for name, value in given.items()}
        made = op_def_library.apply_op(op, **inputs, **attrs, name="fused")
    return graph, fed, list(made) if isinstance(made, Sequence) else [made]


def imported(graph: tf.Graph) -> ImportedGraph:
    return import_graph(graph.as_graph_def(), types_of_graph(graph), library_on=LIBRARY_ON)


def run(graph: tf.Graph, made: Sequence[Any], fed: Mapping[str, Any]) -> list[Any]:
    """What TensorFlow gives. It has some kernels with oneDNN alone, which it leaves off on processors without AVX-512:
    a test that needs one of them is skipped there."""
    try:
        with tf.compat.v1.Session(graph=graph) as session:
            return list(session.run(made, fed))
    except (tf.errors.UnimplementedError, tf.errors.InternalError):
        if _pywrap_util_port.IsMklEnabled():
            raise
        pytest.skip("TensorFlow leaves oneDNN off on this processor, and has no other kernel of this op")


def check_fused(op: str, given: Given, attrs: Given, outputs: int = 1, tolerance: float = 2e-5) -> None:
    """Asserts that the IR gives what TensorFlow does."""
    graph, fed, made = graph_of(op, given, attrs)
    found = imported(graph)
    assert found.nodes["fused"].reason is None, found.nodes["fused"].reason
    want = run(graph, made[:outputs], fed)
    values = [found.value(tensor.name) for tensor in made[:outputs]]
    got = interpret(TensorGraph("g", [(str(i), v) for i, v in enumerate(values) if v is not None]), fed)
    for i, one in enumerate(want):
        np.testing.assert_allclose(got[str(i)].astype(np.float64), one.astype(np.float64), tolerance, tolerance)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["", *ACTIVATIONS, "Tanh", "Sigmoid", "GeluExact", "GeluApproximate", "Add"])
def test_matmuls(name: str, dtype: str) -> None:
    args = [normal((5,), dtype, seed=2), *([normal((6, 5), dtype, seed=3)] if name == "Add" else [])]
    check_fused("_FusedMatMul", {"a": normal((6, 4), dtype), "b": normal((4, 5), dtype, seed=1), "args": args},
                {"fused_ops": ["BiasAdd", *([name] if name else [])], "transpose_a": False, "transpose_b": False,
                 **NUMBERS}, tolerance=2e-5 if dtype == "float32" else 4e-2)


def convolution_args(fused: Sequence[str], channels: int) -> list[Any]:
    args = [normal((channels,), seed=i) for i in range(2, 3 if fused[0] == "BiasAdd" else 5)]
    args += [] if fused[0] == "BiasAdd" else [positive((channels,), seed=5)]
    return args + ([normal((2, 6, 5, channels), seed=6)] if "Add" in fused else [])


@pytest.mark.parametrize("fused", OF_CONVOLUTIONS, ids="+".join)
def test_convolutions(fused: tuple[str, ...]) -> None:
    args = convolution_args(fused, 4)
    check_fused("_FusedConv2D", {"input": normal((2, 6, 5, 3)), "filter": normal((3, 3, 3, 4), seed=1), "args": args,
                                 "host_args": []},
                {"fused_ops": list(fused), "num_args": len(args), "explicit_paddings": [], "filter_format": "HWIO",
                 "use_cudnn_on_gpu": True, **WINDOWS, **NUMBERS})


@pytest.mark.parametrize("name", ["", "Relu", "Relu6", "Elu", "_FusedHardSwish"])
def test_depthwise_convolutions(name: str) -> None:
    check_fused("_FusedDepthwiseConv2dNative",
                {"input": normal((2, 6, 5, 3)), "filter": normal((3, 3, 3, 1), seed=1), "args": [normal((3,), seed=2)]},
                {"fused_ops": ["BiasAdd", *([name] if name else [])], **WINDOWS, **NUMBERS})


def batch_norm(training: bool, activation: str = "Relu", side: bool = False) -> tuple[Given, Given]:
    empty = np.zeros((0,), np.float32)
    mean, variance = (empty, empty) if training else (normal((4,), seed=3), positive((4,), seed=4))
    x = normal((2, 6, 5, 4))
    return ({"x": x, "scale": normal((4,), seed=1), "offset": normal((4,), seed=2), "mean": mean, "variance": variance,
             "side_input": [x] * side},
            {"epsilon": 1e-3, "exponential_avg_factor": 1.0, "activation_mode": activation, "data_format": "NHWC",
             "is_training": training})


@pytest.mark.parametrize("training", [True, False])
def test_batch_norms(training: bool) -> None:
    check_fused("_FusedBatchNormEx", *batch_norm(training), outputs=5 if training else 3)


def test_batch_norms_that_only_gpus_have() -> None:
    """With a sum before the relu, without training; TensorFlow keeps those whose gradient cuDNN computes."""
    given, attrs = batch_norm(False, side=True)
    graph, fed, [y, *_] = graph_of("_FusedBatchNormEx", given, attrs)
    value = imported(graph).value(y.name)
    assert value is not None
    got = interpret(TensorGraph("g", [("y", value)]), fed)["y"]
    x, scale, offset, mean, variance = (given[k] for k in ("x", "scale", "offset", "mean", "variance"))
    want = np.maximum((x - mean) / np.sqrt(variance + 1e-3) * scale + offset + x, 0)
    np.testing.assert_allclose(got, want, 2e-5, 2e-5)
    graph, _, _ = graph_of("_FusedBatchNormEx", *batch_norm(True))
    graph_def = graph.as_graph_def()
    for node in graph_def.node:
        node.device = "/device:GPU:0"
    found = import_graph(graph_def, types_of_graph(graph), library_on=LIBRARY_ON)
    assert found.nodes["fused"].reason == "_FusedBatchNormEx leaves to its gradient what cuDNN alone knows"
