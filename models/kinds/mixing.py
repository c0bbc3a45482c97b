"""Tokens that learn of each other by something that attention of all to all is not."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from models.kinds.draws import integers, normal
from models.kinds.losses import cross_entropy
from models.kinds.words import WORDS, OfEachWord, embedded
from models.network import Network, prepared

CLASSES = 10


def _classifier(given: Any, x: Any, draw: Any) -> Network:
    """Of the mean of tokens."""
    model = keras.Model(given, layers.Dense(CLASSES)(layers.GlobalAveragePooling1D()(x)))

    def with_classes(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return random.integers(0, CLASSES, size), draw(random, size)

    return Network(model, prepared(keras.optimizers.Adam(1e-3), model.trainable_variables), cross_entropy, with_classes)


def _perceptron(x: Any, width: int, hidden: int) -> Any:
    return layers.Dense(width)(layers.Dense(hidden, activation="gelu")(x))


def mixer(small: bool) -> Network:
    """Tolstikhin et al., 2021."""
    side, width, depth = (32, 16, 1) if small else (224, 512, 8)
    image = keras.Input((side, side, 3))
    x = layers.Reshape((-1, width))(layers.Conv2D(width, 16, strides=16)(image))
    patches = x.shape[1]
    for _ in range(depth):
        y = layers.Permute((2, 1))(layers.LayerNormalization()(x))
        x = x + layers.Permute((2, 1))(_perceptron(y, patches, width // 2))
        x = x + _perceptron(layers.LayerNormalization()(x), width, width * 4)
    return _classifier(image, layers.LayerNormalization()(x), lambda random, size: normal(random, size, side, side, 3))


def _spectrum(x: Any) -> Any:
    return tf.math.real(tf.signal.fft2d(tf.cast(x, tf.complex64)))


def fnet(small: bool) -> Network:
    """Fourier transforms in place of attention (Lee-Thorp et al., 2021)."""
    length, width, depth = (16, 16, 1) if small else (256, 512, 6)
    text, x = embedded(length, width)
    for _ in range(depth):
        mixed = layers.Lambda(_spectrum, output_shape=(length, width))(x)
        x = layers.LayerNormalization()(x + ops.cast(mixed, x.dtype))
        x = layers.LayerNormalization()(x + _perceptron(x, width, 4 * width))
    return _classifier(text, x, lambda random, size: integers(random, WORDS, size, length))


class LinearAttention(OfEachWord):
    """Attention by positive features, whose sums over keys come first (Katharopoulos et al., 2020)."""

    def __init__(self, length: int, width: int, heads: int) -> None:
        super().__init__()
        self.length, self.width, self.heads = length, width, heads
        self.projections = [layers.Dense(width) for _ in range(4)]

    def build(self, shape: Any) -> None:
        for projection in self.projections:
            projection.build(shape)
        super().build(shape)

    def call(self, x: Any) -> Any:
        heads = (-1, self.length, self.heads, self.width // self.heads)
        *projections, out = self.projections
        query, key, value = (tf.reshape(projection(x), heads) for projection in projections)
        query, key = tf.nn.elu(query) + 1, tf.nn.elu(key) + 1
        products = tf.einsum("bthd,bthe->bhde", key, value)
        share = 1 / (tf.einsum("bthd,bhd->bth", query, tf.reduce_sum(key, 1)) + 1e-6)
        taken = tf.einsum("bthd,bhde,bth->bthe", query, products, share)
        return out(tf.reshape(taken, (-1, self.length, self.width)))


def performer(small: bool) -> Network:
    """Attention of linear cost, as Choromanski et al., 2020, have it, by simpler features."""
    length, width, depth, heads = (16, 16, 1, 2) if small else (1024, 256, 4, 4)
    text, x = embedded(length, width)
    for _ in range(depth):
        x = x + LinearAttention(length, width, heads)(layers.LayerNormalization()(x))
        x = x + _perceptron(layers.LayerNormalization()(x), width, 4 * width)
    return _classifier(text, x, lambda random, size: integers(random, WORDS, size, length))


class Latents(layers.Layer):
    """Learned tokens, the same for each example."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.count, self.width = count, width

    def build(self, _: Any) -> None:
        self.latents = self.add_weight(shape=(self.count, self.width))

    def call(self, x: Any) -> Any:
        return tf.tile(self.latents[None], [tf.shape(x)[0], 1, 1])

    def compute_output_spec(self, x: Any) -> Any:
        return keras.KerasTensor((x.shape[0], self.count, self.width), self.compute_dtype)


def perceiver(small: bool) -> Network:
    """Few tokens that ask many pixels (Jaegle et al., 2021)."""
    side, latents, width, depth = (8, 8, 16, 1) if small else (64, 128, 256, 4)
    pixels = keras.Input((side * side, 3))
    tokens = layers.Dense(width)(pixels)
    x = Latents(latents, width)(pixels)
    for _ in range(depth):
        y = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(1, width)(y, layers.LayerNormalization()(tokens))
        x = x + _perceptron(layers.LayerNormalization()(x), width, width)
        for _ in range(2):
            y = layers.LayerNormalization()(x)
            x = x + layers.MultiHeadAttention(8, width // 8)(y, y)
            x = x + _perceptron(layers.LayerNormalization()(x), width, width)
    return _classifier(pixels, x, lambda random, size: normal(random, size, side * side, 3))
