"""Mirrored edges and their gradients, against TensorFlow's CPU kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.differential.runner import compiled, run_kernel_ir
from tests.frontend.check import check, trace
from tests.frontend.values import normal
from tf_stitch.device.spec import CPU, H200
from tf_stitch.ir.bind import bind
from tf_stitch.ir.graph import TensorGraph

MODES = ["REFLECT", "SYMMETRIC"]
PADDINGS = [[[0, 0], [1, 1], [2, 2], [0, 0]], [[0, 0], [0, 3], [1, 0], [2, 1]], [[2, 1], [0, 0], [0, 0], [0, 0]],
            [[0, 0]] * 4]
SHAPE = (3, 4, 5, 3)


def gradient(padding: Any, mode: str) -> Any:
    def run(x: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.pad(x, padding, mode)
        return tape.gradient(y, x, dy)

    return run


def padded(padding: Any) -> tuple[int, ...]:
    return tuple(d + low + high for d, (low, high) in zip(SHAPE, padding, strict=True))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padding", PADDINGS, ids=str)
def test_edges(padding: Any, mode: str) -> None:
    check(lambda x: tf.pad(x, padding, mode), normal(SHAPE), rtol=0)
    check(gradient(padding, mode), normal(SHAPE), normal(padded(padding)), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32"])
def test_types(dtype: str) -> None:
    check(lambda x: tf.pad(x, PADDINGS[0], "REFLECT"), normal(SHAPE, dtype), rtol=0)


@pytest.mark.parametrize("mode", MODES)
def test_as_much_as_there_is(mode: str) -> None:
    most = 3 if mode == "REFLECT" else 4
    check(lambda x: tf.pad(x, [[most, most]], mode), normal((4,)), rtol=0)


def test_a_batch_of_unknown_size() -> None:
    check(lambda x: tf.pad(x, PADDINGS[0], "REFLECT"), normal(SHAPE),
          specs=[tf.TensorSpec((None, *SHAPE[1:]), tf.float32)], rtol=0)


def test_an_axis_of_unknown_size_stays() -> None:
    traced = trace(lambda x: tf.pad(x, [[1, 1]], "REFLECT"), tf.TensorSpec([None]))
    [node] = [n for n in traced.imported.nodes.values() if n.op == "MirrorPad"]
    assert node.reason == "mirroring an axis of a size that is decided at run time"


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
@pytest.mark.parametrize("mode", MODES)
def test_kernels(mode: str, device: Any) -> None:
    """Together with what is around them."""
    def run(x: tf.Tensor, dy: tf.Tensor) -> Any:
        return tf.pad(tf.tanh(x), PADDINGS[1], mode) * 2.0, gradient(PADDINGS[1], mode)(x, tf.tanh(dy))

    x, dy = normal(SHAPE), normal(padded(PADDINGS[1]))
    traced = trace(run, *(tf.TensorSpec(a.shape) for a in (x, dy)))
    outputs = [(f"o{i}", traced.imported.value(t.name)) for i, t in enumerate(traced.concrete.graph.outputs)]
    names = [t.name for t in traced.concrete.graph.inputs]
    graph = bind(TensorGraph("mirrored", [(k, n) for k, n in outputs if n is not None]),
                 dict(zip(names, (x.shape, dy.shape), strict=True)))
    got = run_kernel_ir(graph, compiled(graph, device), dict(zip(names, (x, dy), strict=True)))
    for key, want in zip(("o0", "o1"), run(tf.constant(x), tf.constant(dy)), strict=True):
        np.testing.assert_allclose(got[key], want, rtol=1e-5, atol=1e-6)
