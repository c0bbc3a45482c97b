"""Keras' convolutions with groups: whose function XLA compiles, and whose not."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.tensorflow import nn

from tf_stitch.plugin import keras_convolutions

X = np.random.default_rng(0).standard_normal((2, 6, 6, 8)).astype(np.float32)


def ops_of(layer: Any, shape: tuple[int, ...]) -> set[str]:
    layer.build(shape)
    traced = tf.function(layer).get_concrete_function(tf.TensorSpec(shape, tf.float32))
    return {op.type for op in traced.graph.get_operations()}


def ops_and_result(layer: Any) -> tuple[set[str], Any]:
    traced = tf.function(layer).get_concrete_function(tf.TensorSpec(X.shape, tf.float32))
    return {op.type for op in traced.graph.get_operations()}, traced(tf.constant(X)).numpy()


# Without a bias: TensorFlow's optimizer fuses it, and the fused kernel of processors without oneDNN's has no groups.
@pytest.mark.parametrize("layer", [
    lambda: keras.layers.Conv2D(16, 3, 2, padding="same", groups=4, use_bias=False),
    lambda: keras.layers.Conv2D(8, 3, groups=8, dilation_rate=2, use_bias=False)])
def test_of_images(layer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = layer()
    layer.build(X.shape)
    ops, want = ops_and_result(layer)
    assert "Conv2D" not in ops, "Keras calls it itself by now"
    monkeypatch.setattr(nn, "conv", keras_convolutions.without_xla(nn, lambda x: True))
    ops, got = ops_and_result(layer)
    assert "Conv2D" in ops
    assert not [op for op in ops if "Call" in op]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_of_three_axes(data_format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow has kernels with groups on GPUs alone."""
    def ops() -> set[str]:
        layer = keras.layers.Conv3D(16, 3, (1, 2, 1), groups=4, data_format=data_format)
        return ops_of(layer, (2, 5, 6, 6, 8) if data_format == "channels_last" else (2, 8, 5, 6, 6))

    assert "Conv3D" not in ops(), "Keras calls it itself by now"
    monkeypatch.setattr(nn, "conv", keras_convolutions.without_xla(nn, lambda x: True))
    assert "Conv3D" in ops()


def test_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nn, "conv", keras_convolutions.without_xla(nn, lambda x: keras_convolutions._is_on_gpu(tf, x)))
    with tf.device("CPU:0"):
        layer = keras.layers.Conv2D(16, 3, groups=4)
        layer.build(X.shape)
        assert "Conv2D" not in ops_and_result(layer)[0]


def test_patched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nn, "conv", nn.conv)
    keras_convolutions._patch(nn)
    first = nn.conv
    keras_convolutions._patch(nn)
    assert nn.conv is first
    assert hasattr(first, "__wrapped__")
