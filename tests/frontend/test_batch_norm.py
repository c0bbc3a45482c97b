"""Fused batch normalisation against TensorFlow's CPU kernels, all outputs."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import check, trace, types_of_graph
from tests.frontend.values import normal, positive
from tf_stitch.frontend.tensorflow.importer import import_graph
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_kinds import OpKind

RAW = tf.raw_ops
SHAPE = {"NHWC": (2, 3, 5, 4), "NCHW": (2, 4, 3, 5)}


def _statistics():
    return normal((4,), seed=1), normal((4,), seed=2), normal((4,), seed=3), positive((4,), seed=4)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("factor", [1.0, 0.3])
def test_forward(training: bool, factor: float) -> None:
    """What an inference op saves for a gradient is not compared: TensorFlow leaves it unset."""
    for dtype in ("float32", "float16", "bfloat16"):
        check(lambda x, s, o, m, v: RAW.FusedBatchNormV3(
            x=x, scale=s, offset=o, mean=m, variance=v, epsilon=1e-3, exponential_avg_factor=factor,
            is_training=training)[:5 if training else 3], normal(SHAPE["NHWC"], dtype), *_statistics())


def test_forward_of_the_older_ops() -> None:
    x = normal((2, 3, 5, 4))
    scale, offset, _, _ = _statistics()
    empty = np.zeros((0,), np.float32)
    check(lambda x, s, o: RAW.FusedBatchNorm(x=x, scale=s, offset=o, mean=empty, variance=empty), x, scale, offset)
    check(lambda x, s, o: RAW.FusedBatchNormV2(x=x, scale=s, offset=o, mean=empty, variance=empty), x, scale, offset)


def test_channels_first_equals_channels_last() -> None:
    """Traced without TensorFlow's kernel, which the CPU lacks: the layout is checked by transposing."""
    x = normal(SHAPE["NHWC"])
    results = {}
    for data_format in ("NHWC", "NCHW"):
        array = x if data_format == "NHWC" else x.transpose(0, 3, 1, 2)
        traced = trace(lambda x, s, o, m, v, f=data_format: RAW.FusedBatchNormV3(
            x=x, scale=s, offset=o, mean=m, variance=v, data_format=f)[0:2],
            tf.TensorSpec(array.shape), *[tf.TensorSpec([4])] * 4)
        names = [t.name for t in traced.concrete.graph.inputs]
        nodes = [traced.imported.value(t.name) for t in traced.concrete.graph.outputs]
        out = interpret(TensorGraph("bn", [(str(i), n) for i, n in enumerate(nodes)]),
                        dict(zip(names, (array, *_statistics()), strict=True)))
        results[data_format] = out["0"] if data_format == "NHWC" else out["0"].transpose(0, 2, 3, 1)
        results[data_format + "mean"] = out["1"]
    np.testing.assert_allclose(results["NHWC"], results["NCHW"], 1e-5, 1e-5)
    np.testing.assert_allclose(results["NHWCmean"], results["NCHWmean"], 1e-5, 1e-5)


def _gradients(x, scale, offset):
    with tf.GradientTape() as tape:
        tape.watch([x, scale, offset])
        y, _, _ = tf.compat.v1.nn.fused_batch_norm(x, scale, offset)
        loss = tf.reduce_sum(tf.square(y) * tf.range(4, dtype=tf.float32))
    return tape.gradient(loss, [x, scale, offset])


def test_what_a_gpu_saves_is_what_its_gradient_reads() -> None:
    """cuDNN's reserve is 1 / sqrt(variance + epsilon); forward and backward agree on it."""
    x = normal(SHAPE["NHWC"])
    concrete = trace(_gradients, tf.TensorSpec(x.shape), tf.TensorSpec([4]), tf.TensorSpec([4])).concrete
    graph_def = concrete.graph.as_graph_def()
    values = dict(zip([t.name for t in concrete.graph.inputs], (x, *_statistics()[:2]), strict=True))
    results = []
    for device in ("/device:CPU:0", "/device:GPU:0"):
        for node in graph_def.node:
            node.device = device
        imported = import_graph(graph_def, types_of_graph(concrete.graph))
        saved = imported.value(next(n for n in imported.nodes if imported.nodes[n].op == "FusedBatchNormV3") + ":4")
        assert (saved.kind is OpKind.RSQRT) == ("GPU" in device)
        nodes = [(t.name, imported.value(t.name)) for t in concrete.graph.outputs]
        results.append(interpret(TensorGraph("bn", nodes), values))
    for key, value in results[0].items():
        np.testing.assert_allclose(value, results[1][key], 1e-4, 1e-4)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_gradient(training: bool, dtype: str) -> None:
    def function(dy, x, scale, mean, variance):
        return RAW.FusedBatchNormGradV3(
            y_backprop=dy, x=x, scale=scale, reserve_space_1=mean, reserve_space_2=variance, reserve_space_3=0.0,
            epsilon=1e-3, is_training=training)[:3]

    scale, _, mean, variance = _statistics()
    check(function, normal((2, 3, 5, 4), dtype), normal((2, 3, 5, 4), dtype, 9), scale, mean, variance)


def test_layer_trains() -> None:
    """The zeros that the tape makes for the gradient of the reserve space are read by nobody."""
    check(_gradients, normal((2, 3, 5, 4)), *_statistics()[:2], rtol=1e-3, opaque=["ZerosLike"])
