"""Transformer layers that bert, transformer and asr share."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.block import Block

BLOCKED = -1e9
"""Added in float32 to the scores of what must not be seen."""


def padding_bias(lengths: Any, longest: Any) -> Any:
    """0 where a row has a value and BLOCKED behind: [batch, 1, 1, longest]."""
    return tf.where(tf.sequence_mask(lengths, longest), 0.0, BLOCKED)[:, None, None, :]


def causal_bias(length: Any) -> Any:
    """Each position sees itself and what is before it: [1, 1, length, length]."""
    return (1.0 - tf.linalg.band_part(tf.ones([length, length]), -1, 0))[None, None] * BLOCKED


def sinusoids(length: int, width: int) -> np.ndarray:
    """Position vectors: float32 [length, width]."""
    angle = np.arange(length)[:, None] / 10000 ** (np.arange(width // 2) * 2 / width)
    return np.concatenate([np.sin(angle), np.cos(angle)], 1).astype(np.float32)


class Attention(Block):
    """Scaled dot-product attention of several heads."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self._heads, self._scale = heads, (width // heads) ** -0.5
        self.query, self.key, self.value, self.out = (keras.layers.Dense(width) for _ in range(4))
        self.dropout = keras.layers.Dropout(dropout)

    def keys_values(self, memory: Any) -> tuple[Any, Any]:
        """Of [batch, length, width]: two of [batch, heads, length, width / heads]."""
        return self._split(self.key(memory)), self._split(self.value(memory))

    def attend(self, x: Any, keys: Any, values: Any, bias: Any, training: bool) -> Any:
        """x [batch, n, width] looks at keys and values; bias is added to the scores [batch, heads, n, length]."""
        scores = tf.matmul(self._split(self.query(x)) * self._scale, keys, transpose_b=True)
        # Softmax in float32, as automatic mixed precision keeps it.
        weights = tf.cast(tf.nn.softmax(tf.cast(scores, tf.float32) + bias), values.dtype)
        seen = tf.transpose(tf.matmul(self.dropout(weights, training=training), values), [0, 2, 1, 3])
        shape = tf.shape(x)
        return self.out(tf.reshape(seen, [shape[0], shape[1], self.out.units]))

    def call(self, x: Any, memory: Any, bias: Any, training: bool = False) -> Any:
        return self.attend(x, *self.keys_values(memory), bias, training)

    def _split(self, x: Any) -> Any:
        shape, depth = tf.shape(x), x.shape[-1] // self._heads
        return tf.transpose(tf.reshape(x, [shape[0], shape[1], self._heads, depth]), [0, 2, 1, 3])


class FeedForward(Block):
    def __init__(self, width: int, hidden: int, activation: str, dropout: float) -> None:
        super().__init__()
        self.up, self.down = keras.layers.Dense(hidden, activation=activation), keras.layers.Dense(width)
        self.dropout = keras.layers.Dropout(dropout)

    def call(self, x: Any, training: bool = False) -> Any:
        return self.down(self.dropout(self.up(x), training=training))


class Residual(Block):
    """x + f(x) with dropout and layer normalisation, before f (`first`) or after the sum."""

    def __init__(self, dropout: float, first: bool, epsilon: float) -> None:
        super().__init__()
        self._first = first
        self.norm, self.dropout = keras.layers.LayerNormalization(epsilon=epsilon), keras.layers.Dropout(dropout)

    def before(self, x: Any) -> Any:
        """What f is given."""
        return self.norm(x) if self._first else x

    def after(self, x: Any, y: Any, training: bool) -> Any:
        """The result, from x and y = f(before(x))."""
        y = x + self.dropout(y, training=training)
        return y if self._first else self.norm(y)


class EncoderLayer(Block):
    def __init__(self, width: int, heads: int, hidden: int, dropout: float, activation: str = "relu",
                 norm_first: bool = False, epsilon: float = 1e-6) -> None:  # fmt: skip
        super().__init__()
        self.attention = Attention(width, heads, dropout)
        self.feed_forward = FeedForward(width, hidden, activation, dropout)
        self.residuals = [Residual(dropout, norm_first, epsilon) for _ in range(2)]

    def call(self, x: Any, bias: Any, training: bool = False) -> Any:
        inner = self.residuals[0].before(x)
        x = self.residuals[0].after(x, self.attention(inner, inner, bias, training=training), training)
        y = self.feed_forward(self.residuals[1].before(x), training=training)
        return self.residuals[1].after(x, y, training)


class DecoderLayer(Block):
    """Sees the earlier targets and the encoder's memory; one target at a time with a cache, or all at once."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float, norm_first: bool = False) -> None:
        super().__init__()
        self.own, self.other = Attention(width, heads, dropout), Attention(width, heads, dropout)
        self.feed_forward = FeedForward(width, hidden, "relu", dropout)
        self.residuals = [Residual(dropout, norm_first, 1e-6) for _ in range(3)]

    def call(self, x: Any, own_bias: Any, memory: Any, bias: Any, training: bool = False) -> Any:
        inner = self.residuals[0].before(x)
        return self._rest(x, self.own(inner, inner, own_bias, training=training),
                          *self.other.keys_values(memory), bias, training)  # fmt: skip

    def step(self, x: Any, here: Any, cache: tuple[Any, Any], own_bias: Any, memory: tuple[Any, Any], bias: Any) -> Any:
        """One target.

        Args:
            x: [batch, 1, width]
            here: [longest, 1], 1 at the target's place in the cache.
            cache: keys and values so far, each [batch, heads, longest, width / heads], 0 from here on.
            memory: keys and values of the encoder.

        Returns:
            (result [batch, 1, width], the cache with this target)
        """
        inner = self.residuals[0].before(x)
        keys, values = (old + new * here for old, new in zip(cache, self.own.keys_values(inner), strict=True))
        y = self.own.attend(inner, keys, values, own_bias, False)
        return self._rest(x, y, *memory, bias, False), (keys, values)

    def _rest(self, x: Any, y: Any, keys: Any, values: Any, bias: Any, training: bool) -> Any:
        x = self.residuals[0].after(x, y, training)
        y = self.other.attend(self.residuals[1].before(x), keys, values, bias, training)
        x = self.residuals[1].after(x, y, training)
        y = self.feed_forward(self.residuals[2].before(x), training=training)
        return self.residuals[2].after(x, y, training)


class Decoder(Block):
    """A stack of decoder layers and greedy decoding with it."""

    def __init__(self, layers: list[DecoderLayer]) -> None:
        super().__init__()
        self.layers = layers

    def call(self, x: Any, memory: Any, bias: Any, training: bool = False) -> Any:
        own_bias = causal_bias(tf.shape(x)[1])
        for layer in self.layers:
            x = layer(x, own_bias, memory, bias, training=training)
        return x

    def greedy(self, embed: Any, logits: Any, memory: Any, bias: Any, longest: int, begin: int, end: int) -> Any:
        """The likeliest word each time, until every row has ended.

        Args:
            embed: (words [batch, 1], place) -> [batch, 1, width]
            logits: [batch, 1, width] -> [batch, 1, vocabulary]

        Returns:
            Words [batch, longest], `end` from each row's end on.
        """
        batch = tf.shape(memory)[0]
        memories = [layer.other.keys_values(memory) for layer in self.layers]
        empty = tf.zeros_like(tf.repeat(memories[0][0][:, :, :1], longest, 2))
        caches = [(empty, empty) for _ in self.layers]

        def body(place: Any, words: Any, last: Any, caches: Any) -> Any:
            here = tf.one_hot(place, longest, dtype=empty.dtype)[:, None]
            own_bias = tf.where(tf.range(longest) <= place, 0.0, BLOCKED)
            x, new = embed(last[:, None], place), []
            for layer, cache, (keys, values) in zip(self.layers, caches, memories, strict=True):
                x, cache = layer.step(x, here, cache, own_bias, (keys, values), bias)
                new.append(cache)
            best = tf.argmax(logits(x)[:, 0], -1, tf.int32)
            best = tf.where((place > 0) & (last == end), end, best)
            return place + 1, words + best[:, None] * tf.one_hot(place, longest, dtype=tf.int32), best, new

        def go_on(place: Any, words: Any, last: Any, caches: Any) -> Any:
            return (place == 0) | tf.reduce_any(last != end)

        state = (0, tf.zeros([batch, longest], tf.int32), tf.fill([batch], begin), caches)
        place, words, _, _ = tf.while_loop(go_on, body, state, maximum_iterations=longest)
        return tf.where(tf.range(longest) < place, words, end)
