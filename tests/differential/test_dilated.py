"""Dilated convolutions and both gradients as TensorFlow has them on CPUs, by all passes and kernels of an H200."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.differential.runner import compiled, run_kernel_ir
from tests.frontend.check import trace
from tf_stitch.device.spec import H200
from tf_stitch.ir.graph import TensorGraph


@pytest.mark.parametrize(("image", "filters", "padding", "dilations"), [
    ((2, 8, 8, 4), (3, 3, 4, 6), "SAME", (2, 2)), ((2, 9, 7, 4), (3, 2, 4, 6), "SAME", (3, 2)),
    ((2, 9, 11, 4), (3, 3, 4, 6), "VALID", (2, 3)), ((2, 15, 4), (3, 4, 6), "SAME", (4,)),
    ((2, 16, 4), (2, 4, 6), "VALID", (4,))], ids=str)
def test_convolutions(image: tuple[int, ...], filters: tuple[int, ...], padding: str, dilations: tuple[int, ...]
                      ) -> None:
    def step(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch((x, w))
            y = tf.nn.convolution(tf.tanh(x), w, padding=padding, dilations=dilations)
            loss = tf.reduce_sum(y * tf.sin(y))
        return (y, *tape.gradient(loss, (x, w)))

    random = np.random.default_rng(0)
    given = [random.standard_normal(shape).astype(np.float32) for shape in (image, filters)]
    traced = trace(step, *(tf.TensorSpec(a.shape, a.dtype) for a in given))
    names = [t.name for t in traced.concrete.graph.inputs]
    outputs = [(t.name, node) for t in traced.concrete.graph.outputs if (node := traced.imported.value(t.name))]
    graph, values = TensorGraph("dilated", outputs), dict(zip(names, given, strict=True))
    region = compiled(graph, H200)
    convolutions = [str(call) for call in region.calls if "convolution" in str(call)]
    assert ["dilations" in text for text in convolutions] == [True] * 3
    got = run_kernel_ir(graph, region, values)
    for (key, _), want in zip(outputs, step(*map(tf.constant, given)), strict=True):
        np.testing.assert_allclose(got[key], want.numpy(), rtol=1e-4, atol=1e-4)
