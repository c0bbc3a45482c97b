"""Language by states that each word changes: all of a text's at once by doubling, or one after another."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from models.kinds.draws import integers
from models.kinds.losses import cross_entropy
from models.kinds.words import WORDS, OfEachWord, embedded
from models.network import Network, prepared


def _language(text: Any, x: Any, length: int) -> Network:
    model = keras.Model(text, layers.Dense(WORDS)(x))

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return tuple(integers(random, WORDS, size, length) for _ in range(2))

    return Network(model, prepared(keras.optimizers.Adam(1e-3), model.trainable_variables), cross_entropy, draw)


class SelectiveStates(OfEachWord):
    """Linear recurrences whose rates each word says, by a scan that doubles its reach."""

    def __init__(self, length: int, width: int, states: int) -> None:
        super().__init__()
        self.length, self.width, self.states = length, width, states

    def build(self, shape: Any) -> None:
        self.rates = self.add_weight(shape=(self.width, self.states), initializer="ones")
        self.direct = self.add_weight(shape=(self.width,), initializer="ones")
        self.selection = layers.Dense(16 + 2 * self.states)
        self.selection.build(shape)
        self.time = layers.Dense(self.width)
        self.time.build((None, None, 16))
        super().build(shape)

    def call(self, x: Any) -> Any:
        time, written, read = ops.split(self.selection(x), [16, 16 + self.states], -1)
        time = ops.softplus(self.time(time))
        kept = ops.exp(time[..., None] * -ops.exp(self.rates))
        states = (time * x)[..., None] * written[:, :, None, :]
        reach = 1
        while reach < self.length:
            before = [[0, 0], [reach, 0], [0, 0], [0, 0]]
            states = states + kept * tf.pad(states, before)[:, :self.length]
            kept = kept * tf.pad(kept, before, constant_values=1)[:, :self.length]
            reach *= 2
        return ops.sum(states * read[:, :, None, :], -1) + x * self.direct


def state_space(small: bool) -> Network:
    """Mamba (Gu and Dao, 2023)."""
    length, width, depth, states = (16, 8, 1, 4) if small else (512, 256, 4, 16)
    text, x = embedded(length, width)
    for _ in range(depth):
        y, gate = ops.split(layers.Dense(4 * width)(layers.LayerNormalization(rms_scaling=True)(x)), 2, -1)
        y = layers.DepthwiseConv1D(4, padding="valid")(layers.ZeroPadding1D((3, 0))(y))
        y = SelectiveStates(length, 2 * width, states)(layers.Activation("silu")(y))
        x = x + layers.Dense(width)(y * ops.silu(gate))
    return _language(text, layers.LayerNormalization(rms_scaling=True)(x), length)


class TimeMixing(OfEachWord):
    """Means of all words so far, weighed by what they say and by how long ago, in a loop of words."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def build(self, shape: Any) -> None:
        self.shares = self.add_weight(shape=(3, self.width), initializer="ones")
        self.decay = self.add_weight(shape=(self.width,), initializer="ones")
        self.bonus = self.add_weight(shape=(self.width,), initializer="ones")
        self.projections = [layers.Dense(self.width, use_bias=False) for _ in range(4)]
        for projection in self.projections:
            projection.build(shape)
        super().build(shape)

    def call(self, x: Any) -> Any:
        last, shares = tf.pad(x, [[0, 0], [1, 0], [0, 0]])[:, :-1], tf.cast(self.shares, x.dtype)
        *projections, out = self.projections
        key, value, gate = (projection(x * shares[i] + last * (1 - shares[i]))
                            for i, projection in enumerate(projections))
        keys, values = (tf.transpose(tf.cast(part, tf.float32), (1, 0, 2)) for part in (key, value))
        decay, bonus = -tf.exp(tf.cast(self.decay, tf.float32)), tf.cast(self.bonus, tf.float32)

        def step(state: Any, word: Any) -> Any:
            """The sum of values, of their weights, the logarithm of both's scale, and the mean."""
            total, weight, scale, _ = state
            key, value = word
            largest = tf.maximum(scale, bonus + key)
            old, new = tf.exp(scale - largest), tf.exp(bonus + key - largest)
            mean = (old * total + new * value) / (old * weight + new)
            largest = tf.maximum(scale + decay, key)
            old, new = tf.exp(scale + decay - largest), tf.exp(key - largest)
            return old * total + new * value, old * weight + new, largest, mean

        zeros = tf.zeros((tf.shape(x)[0], self.width))
        means = tf.scan(step, (keys, values), (zeros, zeros, zeros - 1e30, zeros))[3]
        return out(tf.sigmoid(gate) * tf.cast(tf.transpose(means, (1, 0, 2)), x.dtype))


def rwkv(small: bool) -> Network:
    """Peng et al., 2023."""
    length, width, depth = (8, 8, 1) if small else (128, 256, 4)
    text, x = embedded(length, width)
    for _ in range(depth):
        x = x + TimeMixing(width)(layers.LayerNormalization()(x))
        y = layers.Dense(4 * width, activation="relu")(layers.LayerNormalization()(x))
        x = x + layers.Dense(width)(y * y)
    return _language(text, layers.LayerNormalization()(x), length)
