"""What networks learn of images and words: without labels, from words left out, and as vectors of parts."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from models.kinds.draws import integers, normal, uniform
from models.kinds.losses import cross_entropy, in_float32
from models.kinds.objective import Objective, following
from models.network import Network, prepared


def byol(small: bool) -> Objective:
    """Two views of images, one seen by a network that follows the other (Grill et al., 2020)."""
    side, width = (16, 8) if small else (32, 64)

    def encoder() -> keras.Model:
        x = image = keras.Input((side, side, 3))
        for wider in (1, 2, 4):
            x = layers.Conv2D(width * wider, 3, strides=2, padding="same")(x)
            x = layers.ReLU()(layers.BatchNormalization()(x))
        x = layers.BatchNormalization()(layers.Dense(256)(layers.GlobalAveragePooling2D()(x)))
        return keras.Model(image, layers.Dense(64)(layers.ReLU()(x)))

    online, target = encoder(), encoder()
    code = keras.Input((64,))
    predictor = keras.Model(code, layers.Dense(64)(layers.Dense(128, activation="relu")(code)))

    def unit(x: Any) -> Any:
        return tf.math.l2_normalize(in_float32(x), -1)

    def loss(*views: Any) -> Any:
        total = 0.0
        for one, other in (views, reversed(views)):
            predicted = unit(predictor(online(one, training=True), training=True))
            wanted = tf.stop_gradient(unit(target(other, training=True)))
            total += tf.reduce_mean(2 - 2 * tf.reduce_sum(predicted * wanted, -1))
        return total

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return tuple(normal(random, size, side, side, 3) for _ in range(2))

    variables = online.trainable_variables + predictor.trainable_variables
    return Objective(variables, prepared(keras.optimizers.Adam(1e-3), variables), loss, draw,
                     following(target.trainable_variables, online.trainable_variables, 0.01))


class Within(layers.Layer):
    """Which words texts of these lengths have."""

    def __init__(self, longest: int) -> None:
        super().__init__()
        self.longest = longest

    def call(self, lengths: Any) -> Any:
        return tf.range(self.longest)[None] < lengths[:, None]

    def compute_output_spec(self, lengths: Any) -> Any:
        return keras.KerasTensor((lengths.shape[0], self.longest), "bool")


class Picked(layers.Layer):
    """The words of a text at these places."""

    def call(self, x: Any, places: Any) -> Any:
        return tf.gather(x, places, batch_dims=1)

    def compute_output_spec(self, x: Any, places: Any) -> Any:
        return keras.KerasTensor((x.shape[0], places.shape[1], x.shape[2]), x.dtype)


def masked_language(small: bool) -> Network:
    """BERT's task, of as many words left out in each text (Devlin et al., 2018)."""
    length, width, depth, words, masked = (16, 16, 1, 100, 4) if small else (128, 512, 4, 20000, 20)
    text, places = keras.Input((length,), dtype="int32"), keras.Input((masked,), dtype="int32")
    lengths = keras.Input((), dtype="int32")
    x = layers.Embedding(words, width)(text) + layers.Embedding(length, width)(np.arange(length))
    x = layers.LayerNormalization()(x)
    mask = Within(length)(lengths)
    for _ in range(depth):
        y = layers.MultiHeadAttention(8, width // 8, dropout=0.1)(x, x, attention_mask=mask[:, None, :])
        x = layers.LayerNormalization()(x + layers.Dropout(0.1)(y))
        y = layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(x))
        x = layers.LayerNormalization()(x + layers.Dropout(0.1)(y))
    x = layers.LayerNormalization()(layers.Dense(width, activation="gelu")(Picked()(x, places)))
    model = keras.Model([text, places, lengths], layers.Dense(words)(x))

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        wanted, given = integers(random, words, size, masked), integers(random, words, size, length, first=1)
        places = np.sort(integers(random, length, size, masked), -1)
        return wanted, given, places, integers(random, length, size, first=length // 2)

    return Network(model, prepared(keras.optimizers.AdamW(1e-3), model.trainable_variables), cross_entropy, draw)


def _squashed(x: Any) -> Any:
    """Vectors with lengths below one."""
    square = tf.reduce_sum(x * x, -1, keepdims=True)
    return square / (1 + square) * x / tf.sqrt(square + 1e-9)


def capsules(small: bool) -> Objective:
    """Vectors that agree on which of them is seen, in three rounds (Sabour et al., 2017)."""
    (side, width, kernel), classes = (12, 8, 3) if small else (28, 256, 9), 10
    image = keras.Input((side, side, 1))
    x = layers.Conv2D(width, kernel, strides=2)(layers.Conv2D(width, kernel, activation="relu")(image))
    model = keras.Model(image, layers.Reshape((-1, 8))(x))
    first = np.random.default_rng(0).standard_normal((model.output_shape[1], classes, 16, 8))
    weights = tf.Variable(first.astype(np.float32) * 0.1)

    def loss(wanted: Any, images: Any) -> Any:
        parts = _squashed(in_float32(model(images, training=True)))
        votes = tf.einsum("niov,bnv->bnio", weights, parts)
        held = tf.stop_gradient(votes)
        agreement = tf.zeros_like(votes[..., 0])
        for _ in range(2):
            shares = tf.nn.softmax(agreement, 2)[..., None]
            seen = _squashed(tf.reduce_sum(shares * held, 1, keepdims=True))
            agreement += tf.reduce_sum(held * seen, -1)
        shares = tf.nn.softmax(agreement, 2)[..., None]
        seen = _squashed(tf.reduce_sum(shares * votes, 1, keepdims=True))
        lengths, true = tf.sqrt(tf.reduce_sum(seen[:, 0] ** 2, -1) + 1e-9), tf.one_hot(wanted, classes)
        short, long = tf.maximum(0.0, 0.9 - lengths) ** 2, tf.maximum(0.0, lengths - 0.1) ** 2
        return tf.reduce_mean(tf.reduce_sum(true * short + 0.5 * (1 - true) * long, 1))

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return integers(random, classes, size), uniform(random, size, side, side, 1)

    variables = [*model.trainable_variables, weights]
    return Objective(variables, prepared(keras.optimizers.Adam(1e-3), variables), loss, draw)
