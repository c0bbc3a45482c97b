"""Images out of images: of another kind and back, in another's style, and larger."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from models.kinds.draws import normal, uniform
from models.kinds.losses import in_float32
from models.kinds.objective import Objective
from models.network import Network, prepared


class Mirrored(layers.Layer):
    """Images with so many more pixels on each side, as in a mirror."""

    def __init__(self, pixels: int) -> None:
        super().__init__()
        self.pixels = pixels

    def call(self, x: Any) -> Any:
        return tf.pad(x, [[0, 0], [self.pixels] * 2, [self.pixels] * 2, [0, 0]], "REFLECT")


def _normed(x: Any) -> Any:
    """Each channel of each image by itself (Ulyanov et al., 2016)."""
    return layers.GroupNormalization(groups=-1)(x)


def _translator(side: int, width: int, depth: int) -> keras.Model:
    image = keras.Input((side, side, 3))
    x = layers.ReLU()(_normed(layers.Conv2D(width, 7, use_bias=False)(Mirrored(3)(image))))
    for wider in (2, 4):
        x = layers.Conv2D(width * wider, 3, strides=2, padding="same", use_bias=False)(x)
        x = layers.ReLU()(_normed(x))
    for _ in range(depth):
        y = layers.ReLU()(_normed(layers.Conv2D(width * 4, 3, use_bias=False)(Mirrored(1)(x))))
        x = x + _normed(layers.Conv2D(width * 4, 3, use_bias=False)(Mirrored(1)(y)))
    for wider in (2, 1):
        x = layers.Conv2DTranspose(width * wider, 3, strides=2, padding="same", use_bias=False)(x)
        x = layers.ReLU()(_normed(x))
    return keras.Model(image, layers.Conv2D(3, 7, activation="tanh")(Mirrored(3)(x)))


def _judge(side: int, width: int) -> keras.Model:
    """Of patches."""
    image = keras.Input((side, side, 3))
    x = layers.LeakyReLU(0.2)(layers.Conv2D(width, 4, strides=2, padding="same")(image))
    for wider in (2, 4):
        x = layers.Conv2D(width * wider, 4, strides=2, padding="same", use_bias=False)(x)
        x = layers.LeakyReLU(0.2)(_normed(x))
    return keras.Model(image, layers.Conv2D(1, 4, padding="same")(x))


def cyclegan(small: bool) -> Objective:
    """The generators' step (Zhu et al., 2017)."""
    side, width, depth = (32, 8, 1) if small else (128, 64, 6)
    there, back = (_translator(side, width, depth) for _ in range(2))
    judge = _judge(side, width)

    def loss(given: Any, others: Any) -> Any:
        made = there(given, training=True)
        again = in_float32(back(made, training=True))
        fooled = tf.reduce_mean((in_float32(judge(made, training=True)) - 1) ** 2)
        cycle = tf.reduce_mean(tf.abs(again - given))
        same = tf.reduce_mean(tf.abs(in_float32(there(others, training=True)) - others))
        return fooled + 10 * cycle + 5 * same

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return tuple(normal(random, size, side, side, 3) for _ in range(2))

    variables = there.trainable_variables + back.trainable_variables
    return Objective(variables, prepared(keras.optimizers.Adam(1e-3), variables), loss, draw)


def style(small: bool) -> Objective:
    """An image that takes on a style (Gatys et al., 2015), which a batch of any size says."""
    side, width = (32, 8) if small else (256, 64)
    x = image = keras.Input((side, side, 3))
    seen = []
    for wider, depth in ((1, 2), (2, 2), (4, 4)):
        for _ in range(depth):
            x = layers.Conv2D(width * wider, 3, padding="same", activation="relu")(x)
        seen.append(x)
        x = layers.AveragePooling2D(2)(x)
    model = keras.Model(image, seen)
    painted = tf.Variable(uniform(np.random.default_rng(0), 1, side, side, 3))

    def products(features: Any) -> Any:
        features = in_float32(features)
        sums = tf.einsum("bijc,bijd->bcd", features, features)
        return sums / float(features.shape[1] * features.shape[2])

    def loss(*styles: Any) -> Any:
        errors = [tf.reduce_mean(tf.square(products(features) - wanted))
                  for features, wanted in zip(model(painted), styles, strict=True)]
        return sum(errors) + 30 * tf.reduce_sum(tf.image.total_variation(painted)) / float(side * side)

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return tuple(uniform(random, 1, width * wider, width * wider) for wider in (1, 2, 4))

    def after() -> None:
        painted.assign(tf.clip_by_value(painted, 0, 1))

    return Objective([painted], prepared(keras.optimizers.Adam(0.02), [painted]), loss, draw, after)


def edsr(small: bool) -> Network:
    """Images four times as large (Lim et al., 2017)."""
    side, width, depth = (8, 8, 1) if small else (48, 64, 16)
    image = keras.Input((side, side, 3))
    x = first = layers.Conv2D(width, 3, padding="same")(image)
    for _ in range(depth):
        y = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
        x = x + 0.1 * layers.Conv2D(width, 3, padding="same")(y)
    x = first + layers.Conv2D(width, 3, padding="same")(x)
    for _ in range(2):
        x = layers.Conv2D(width * 4, 3, padding="same")(x)
        larger = (x.shape[1] * 2, x.shape[2] * 2, width)
        x = layers.Lambda(lambda y: tf.nn.depth_to_space(y, 2), output_shape=larger)(x)
    model = keras.Model(image, layers.Conv2D(3, 3, padding="same")(x))

    def loss(wanted: Any, made: Any) -> Any:
        return tf.abs(tf.cast(wanted, tf.float32) - made)

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return normal(random, size, side * 4, side * 4, 3), normal(random, size, side, side, 3)

    return Network(model, prepared(keras.optimizers.Adam(1e-3), model.trainable_variables), loss, draw)
