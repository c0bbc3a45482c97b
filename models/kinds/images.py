"""Images: attention in shifted windows, segmentation at several scales, and a transformer that learns noise."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from models.kinds.losses import cross_entropy
from models.network import Network, prepared


def _network(model: keras.Model, optimizer: keras.optimizers.Optimizer, loss: Any, draw: Any) -> Network:
    return Network(model, prepared(optimizer, model.trainable_variables), loss, draw)


class WindowAttention(layers.Layer):
    """Attention within windows, perhaps shifted by half of one, with biases by relative position (Liu et al., 2021)."""

    def __init__(self, width: int, heads: int, window: int, side: int, shifted: bool) -> None:
        super().__init__()
        self.width, self.heads, self.window, self.side = width, heads, window, side
        self.shift = window // 2 if shifted else 0
        self.qkv, self.out = layers.Dense(3 * width), layers.Dense(width)
        self.table = self.add_weight(shape=((2 * window - 1) ** 2, heads), initializer="random_normal")
        place = np.stack(np.meshgrid(*[np.arange(window)] * 2, indexing="ij")).reshape(2, -1)
        apart = (place[:, :, None] - place[:, None]).transpose(1, 2, 0) + window - 1
        self.index = (apart[..., 0] * (2 * window - 1) + apart[..., 1]).reshape(-1)
        part = np.digitize(np.arange(side), [side - window, side - self.shift]) if shifted else np.zeros(side, int)
        area = self._windows(np, (part[:, None] * 3 + part)[None, ..., None]).reshape(-1, window * window)
        self.hidden = np.where(area[:, None] != area[:, :, None], -100.0, 0.0).astype(np.float32)[None, :, None]

    def call(self, x: Any) -> Any:
        size, words, count = self.width // self.heads, self.window ** 2, (self.side // self.window) ** 2
        x = self._windows(ops, ops.roll(x, (-self.shift, -self.shift), (1, 2)) if self.shift else x)
        x = ops.reshape(self.qkv(ops.reshape(x, (-1, words, self.width))), (-1, words, 3, self.heads, size))
        query, key, value = ops.unstack(ops.transpose(x, (2, 0, 3, 1, 4)), 3)
        scores = ops.matmul(query * size**-0.5, ops.transpose(key, (0, 1, 3, 2)))
        bias = ops.reshape(ops.take(self.table, self.index, axis=0), (words, words, self.heads))
        scores = scores + ops.cast(ops.transpose(bias, (2, 0, 1)), scores.dtype)
        if self.shift:
            apart = ops.reshape(scores, (-1, count, self.heads, words, words)) + ops.cast(self.hidden, scores.dtype)
            scores = ops.reshape(apart, (-1, self.heads, words, words))
        x = self.out(ops.reshape(ops.transpose(ops.matmul(ops.softmax(scores), value), (0, 2, 1, 3)),
                                 (-1, words, self.width)))
        number = self.side // self.window
        x = ops.reshape(x, (-1, number, number, self.window, self.window, self.width))
        x = ops.reshape(ops.transpose(x, (0, 1, 3, 2, 4, 5)), (-1, self.side, self.side, self.width))
        return ops.roll(x, (self.shift, self.shift), (1, 2)) if self.shift else x

    def _windows(self, np_or_ops: Any, x: Any) -> Any:
        number = self.side // self.window
        x = np_or_ops.reshape(x, (-1, number, self.window, number, self.window, x.shape[-1]))
        return np_or_ops.transpose(x, (0, 1, 3, 2, 4, 5))


def swin(small: bool) -> Network:
    """Swin-T."""
    side, window, width, heads = (16, 4, 16, 2) if small else (224, 7, 96, 3)
    depths, patch, classes = ((2, 2), 2, 10) if small else ((2, 2, 6, 2), 4, 1000)
    image = keras.Input((side, side, 3))
    x, side = layers.LayerNormalization()(layers.Conv2D(width, patch, patch)(image)), side // patch
    for stage, depth in enumerate(depths):
        if stage:
            corners = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
            side, width, heads = side // 2, width * 2, heads * 2
            x = layers.Dense(width, use_bias=False)(layers.LayerNormalization()(ops.concatenate(corners, -1)))
        for i in range(depth):
            shifted = i % 2 == 1 and side > window
            x = x + WindowAttention(width, heads, window, side, shifted)(layers.LayerNormalization()(x))
            y = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(x))
            x = x + layers.Dense(width)(y)
    model = keras.Model(image, layers.Dense(classes)(layers.GlobalAveragePooling2D()(layers.LayerNormalization()(x))))

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        given = random.standard_normal((size, *image.shape[1:])).astype(np.float32)
        return random.integers(0, classes, size), given

    return _network(model, keras.optimizers.AdamW(1e-4), cross_entropy, draw)


def deeplab(small: bool) -> Network:
    """Dilated convolutions side by side, an image's mean, and a decoder (Chen et al., 2018); the loss leaves out pixels
    without a label, and is a cross-entropy and a Dice loss."""
    side, widths, classes = (32, (8, 8, 16), 5) if small else (256, (64, 128, 256), 21)

    def block(x: Any, width: int, size: int = 3, **options: Any) -> Any:
        x = layers.Conv2D(width, size, padding="same", use_bias=False, **options)(x)
        return layers.ReLU()(layers.BatchNormalization()(x))

    image = keras.Input((side, side, 3))
    near = block(block(image, widths[0], strides=2), widths[1], strides=2)
    x = block(block(near, widths[2]), widths[2], dilation_rate=2)
    mean = block(layers.AveragePooling2D(side // 4)(x), widths[1], 1)
    scales = [block(x, widths[1], 3 if rate > 1 else 1, dilation_rate=rate) for rate in (1, 3, 6)]
    x = layers.Concatenate()([layers.UpSampling2D(side // 4, interpolation="bilinear")(mean), *scales])
    x = block(layers.Concatenate()([block(x, widths[1], 1), block(near, 8, 1)]), widths[1])
    x = layers.UpSampling2D(4, interpolation="bilinear")(layers.Conv2D(classes, 1)(x))
    model = keras.Model(image, x)

    def loss(wanted: Any, logits: Any) -> Any:
        known = tf.cast(wanted >= 0, tf.float32)
        labels = tf.maximum(wanted, 0)
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits) * known
        shares, true = tf.nn.softmax(logits), tf.one_hot(labels, classes) * known[..., None]
        both = tf.reduce_sum(shares * true, (0, 1, 2))
        dice = 1 - (2 * both + 1) / (tf.reduce_sum(shares * known[..., None] + true, (0, 1, 2)) + 1)
        return tf.reduce_sum(entropy) / tf.reduce_sum(known) + tf.reduce_mean(dice)

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        given = random.standard_normal((size, side, side, 3)).astype(np.float32)
        return random.integers(-1, classes, (size, side, side)).astype(np.int32), given

    return _network(model, keras.optimizers.SGD(0.01, momentum=0.9, weight_decay=1e-4), loss, draw)


def dit(small: bool) -> Network:
    """A transformer that finds an image's noise, scaled and shifted by what it is told (Peebles and Xie, 2023)."""
    depth, width, heads, side = (2, 32, 2, 8) if small else (12, 384, 6, 32)
    image, time, kind = keras.Input((side, side, 4)), keras.Input(()), keras.Input((), dtype="int32")
    steps = np.exp(-np.log(1e4) * np.arange(128) / 128).astype(np.float32)
    angle = layers.Lambda(lambda t: t[:, None] * steps, output_shape=(128,), dtype="float32")(time)
    told = layers.Dense(width, activation="silu")(ops.concatenate([ops.cos(angle), ops.sin(angle)], -1))
    told = layers.Activation("silu")(layers.Dense(width)(told) + layers.Embedding(1001, width)(kind))
    x = layers.Reshape((-1, width))(layers.Conv2D(width, 2, 2)(image))

    def norm(x: Any, scale: Any, shift: Any) -> Any:
        return layers.LayerNormalization(center=False, scale=False, epsilon=1e-6)(x) * (1 + scale) + shift

    for _ in range(depth):
        parts = ops.split(layers.Dense(6 * width)(told)[:, None], 6, -1)
        y = norm(x, parts[0], parts[1])
        x = x + parts[2] * layers.MultiHeadAttention(heads, width // heads)(y, y)
        y = layers.Dense(4 * width, activation="gelu")(norm(x, parts[3], parts[4]))
        x = x + parts[5] * layers.Dense(width)(y)
    x = layers.Reshape((side // 2, side // 2, 2, 2, 4))(layers.Dense(16)(layers.LayerNormalization()(x)))
    model = keras.Model([image, time, kind], layers.Reshape((side, side, 4))(layers.Permute((1, 3, 2, 4, 5))(x)))

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        noise, noised = random.standard_normal((2, size, side, side, 4)).astype(np.float32)
        return noise, noised, random.integers(0, 1000, size).astype(np.float32), random.integers(0, 1000, size).astype(
            np.int32)

    return _network(model, keras.optimizers.AdamW(1e-4, use_ema=True, global_clipnorm=1.0),
                    keras.losses.mean_squared_error, draw)
