"""Images by a network that finds the noise in them."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from models.kinds.draws import normal
from models.kinds.losses import in_float32
from models.kinds.objective import Objective, following
from models.network import prepared


def _normed(x: Any) -> Any:
    return layers.Activation("swish")(layers.GroupNormalization(8)(x))


def _block(x: Any, told: Any, width: int) -> Any:
    """Two convolutions, with what is told of the time between them."""
    kept = x if x.shape[-1] == width else layers.Conv2D(width, 1)(x)
    x = layers.Conv2D(width, 3, padding="same")(_normed(x))
    x = x + layers.Dense(width)(layers.Activation("swish")(told))[:, None, None]
    return layers.Conv2D(width, 3, padding="same")(layers.Dropout(0.1)(_normed(x))) + kept


def _attention(x: Any) -> Any:
    """Of all pixels by all."""
    width = x.shape[-1]
    pixels = layers.Reshape((-1, width))(layers.GroupNormalization(8)(x))
    return x + layers.Reshape(x.shape[1:])(layers.MultiHeadAttention(1, width)(pixels, pixels))


def _denoiser(side: int, width: int) -> keras.Model:
    """A U of convolutions and attention that is told the time."""
    image, time = keras.Input((side, side, 3)), keras.Input((), dtype="int32")
    rates = np.exp(-np.log(10000) * np.arange(width // 2) / (width // 2)).astype(np.float32)
    angle = ops.cast(time, "float32")[:, None] * rates
    told = layers.Dense(width * 4, activation="swish")(ops.concatenate([ops.sin(angle), ops.cos(angle)], -1))
    told = layers.Dense(width * 4)(told)
    x = layers.Conv2D(width, 3, padding="same")(image)
    skipped = [x]
    for level, wider in enumerate((1, 2, 4)):
        for _ in range(2):
            x = _block(x, told, width * wider)
            if level:
                x = _attention(x)
            skipped.append(x)
        if level < 2:
            x = layers.Conv2D(width * wider, 3, strides=2, padding="same")(x)
            skipped.append(x)
    x = _block(_attention(_block(x, told, width * 4)), told, width * 4)
    for level, wider in enumerate((4, 2, 1)):
        for _ in range(3):
            x = _block(ops.concatenate([x, skipped.pop()], -1), told, width * wider)
            if level < 2:
                x = _attention(x)
        if level < 2:
            x = layers.UpSampling2D(interpolation="nearest")(x)
            x = layers.Conv2D(width * wider, 3, padding="same")(x)
    noise = layers.Conv2D(3, 3, padding="same", kernel_initializer="zeros")(_normed(x))
    return keras.Model([image, time], noise)


def ddpm(small: bool) -> Objective:
    """Ho et al., 2020, with a moving average of the weights."""
    side, width = (16, 8) if small else (32, 64)
    model = _denoiser(side, width)
    variables = model.trainable_variables
    averages = [tf.Variable(variable) for variable in variables]
    left = np.cumprod(1 - np.linspace(1e-4, 0.02, 1000)).astype(np.float32)
    seeds = keras.random.SeedGenerator(1)

    def loss(images: Any) -> Any:
        time = keras.random.randint((tf.shape(images)[0],), 0, 1000, seed=seeds)
        noise = keras.random.normal(tf.shape(images), seed=seeds)
        share = tf.gather(left, time)[:, None, None, None]
        found = model([tf.sqrt(share) * images + tf.sqrt(1 - share) * noise, time], training=True)
        return tf.reduce_mean(tf.square(noise - in_float32(found)))

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return (normal(random, size, side, side, 3),)

    return Objective(variables, prepared(keras.optimizers.Adam(1e-3), variables), loss, draw,
                     following(averages, variables, 0.001))
