"""Dilated convolutions and both gradients as TensorFlow has them on CPUs, by all passes and kernels of an H200."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tests.differential.runner import compiled, run_kernel_ir
from tests.frontend.check import trace
from tf_stitch.device.spec import H200
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_attrs import ConvolutionAttrs

SHAPES = [((2, 8, 8, 4), (3, 3, 4, 6), "SAME", (2, 2)), ((2, 9, 7, 4), (3, 2, 4, 6), "SAME", (3, 2)),
          ((2, 9, 11, 4), (3, 3, 4, 6), "VALID", (2, 3)), ((2, 15, 4), (3, 4, 6), "SAME", (4,)),
          ((2, 16, 4), (2, 4, 6), "VALID", (4,))]


def dilated(step: Callable[..., Any], given: Sequence[Any]) -> tuple[list[bool], list[Any]]:
    """Whether a step's convolutions are dilated, in order; and its results."""
    traced = trace(step, *(tf.TensorSpec(a.shape, a.dtype) for a in given))
    names = [t.name for t in traced.concrete.graph.inputs]
    outputs = [(t.name, node) for t in traced.concrete.graph.outputs if (node := traced.imported.value(t.name))]
    assert len(outputs) == len(traced.concrete.graph.outputs)
    graph = TensorGraph("dilated", [(f"{i}", node) for i, (_, node) in enumerate(outputs)])
    region = compiled(graph, H200)
    got = run_kernel_ir(graph, region, dict(zip(names, given, strict=True)))
    convolutions = [n.attrs for call in region.calls for n in call.nodes if isinstance(n.attrs, ConvolutionAttrs)]
    return sorted(max(attrs.dilations) > 1 for attrs in convolutions), [got[f"{i}"] for i in range(len(outputs))]


def random(shapes: Sequence[Sequence[int]], scale: float = 1.0) -> list[Any]:
    generator = np.random.default_rng(0)
    return [(scale * generator.standard_normal(shape)).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
@pytest.mark.parametrize(("image", "filters", "padding", "dilations"), SHAPES, ids=str)
def test_convolutions(image: tuple[int, ...], filters: tuple[int, ...], padding: str, dilations: tuple[int, ...],
                      dtype: tf.DType) -> None:
    """Gradients of filters, and convolutions along one axis, stay those of cut images. Halves are TensorFlow's float32
    to their last bits."""
    def step(x: Any, w: Any, dtype: tf.DType = dtype) -> Any:
        with tf.GradientTape() as tape:
            tape.watch((x, w))
            y = tf.nn.convolution(tf.cast(tf.tanh(x), dtype), tf.cast(w, dtype), padding=padding, dilations=dilations)
            loss = tf.reduce_sum(tf.square(tf.cast(y, tf.float32)))
        return (tf.cast(y, tf.float32), *tape.gradient(loss, (x, w)))

    given = random((image, filters))
    kinds, got = dilated(step, given)
    assert kinds == ([False, True, True] if len(dilations) == 2 else [False] * 3)
    within = 1e-4 if dtype is tf.float32 else 2**-6
    for a, b in zip(got, step(*map(tf.constant, given), tf.float32), strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=within, atol=within * np.abs(b).max())


def test_a_train_step() -> None:
    """Of layers of Keras one behind the other, with a norm between them; twice, so that its weights are used."""
    x = inputs = keras.Input((9, 10, 3))
    for dilation in (2, 3):
        x = layers.Conv2D(6, 3, padding="same", dilation_rate=dilation, use_bias=False)(x)
        x = layers.ReLU()(layers.LayerNormalization()(x))
    model = keras.Model(inputs, layers.Dense(4)(layers.GlobalAveragePooling2D()(x)))

    def step(x: Any, wanted: Any, *weights: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            y, _ = model.stateless_call(weights, [], x, training=True)
            loss = tf.reduce_mean(tf.square(y - wanted))
        return (loss, *(w - 0.1 * g for w, g in zip(weights, tape.gradient(loss, weights), strict=True)))

    batch = random([(2, 9, 10, 3), (2, 4)])
    state = want = [v.numpy() for v in model.trainable_variables]
    for _ in range(2):
        kinds, (loss, *state) = dilated(step, [*batch, *state])
        wanted_loss, *want = (t.numpy() for t in step(*map(tf.constant, [*batch, *want])))
        assert kinds == [False] * 2 + [True] * 3
        for a, b in zip([loss, *state], [wanted_loss, *want], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
