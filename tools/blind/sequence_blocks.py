"""Blocks of words, patches and series that drawn networks are made of, in plain Keras 3."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers, ops

from tools.blind.blocks import activated, normalized


class Positions(layers.Layer):
    """Adds a learned vector for each place."""

    def build(self, shape: Any) -> None:
        self.table = self.add_weight(shape=shape[1:], initializer=keras.initializers.RandomNormal(stddev=0.02))

    def call(self, x: Any) -> Any:
        return x + ops.cast(self.table, x.dtype)


class RotaryAttention(layers.Layer):
    """Attention with rotary embeddings, several queries of one key, and norms of both where asked for."""

    def __init__(self, heads: int, key_heads: int, width: int, causal: bool, normed: bool) -> None:
        super().__init__()
        self.heads, self.key_heads, self.width, self.causal, self.normed = heads, key_heads, width, causal, normed

    def build(self, shape: Any) -> None:
        counts = {"query": self.heads, "key": self.key_heads, "value": self.key_heads}
        self.projections = {name: layers.Dense(n * self.width, use_bias=False) for name, n in counts.items()}
        self.out = layers.Dense(shape[-1], use_bias=False)
        for projection in self.projections.values():
            projection.build(shape)
        self.out.build((*shape[:-1], self.heads * self.width))
        self.norms = [layers.RMSNormalization() for _ in range(2 if self.normed else 0)]
        for norm in self.norms:
            norm.build((None, None, None, self.width))

    def call(self, x: Any) -> Any:
        length = x.shape[1]
        query, key, value = (ops.reshape(self.projections[name](x), (-1, length, heads, self.width))
                             for name, heads in (("query", self.heads), ("key", self.key_heads),
                                                 ("value", self.key_heads)))
        if self.norms:
            query, key = self.norms[0](query), self.norms[1](key)
        query, key = self._turned(query, length), self._turned(key, length)
        key, value = (ops.repeat(part, self.heads // self.key_heads, axis=2) for part in (key, value))
        y = ops.dot_product_attention(query, key, value, is_causal=self.causal)
        return self.out(ops.reshape(y, (-1, length, self.heads * self.width)))

    def _turned(self, x: Any, length: int) -> Any:
        half = self.width // 2
        rates = ops.exp(-ops.arange(half, dtype="float32") * (9.2 / half))
        angles = ops.arange(length, dtype="float32")[:, None] * rates
        cosine, sine = (ops.cast(f(angles), x.dtype)[None, :, None] for f in (ops.cos, ops.sin))
        first, second = x[..., :half], x[..., half:]
        return ops.concatenate([first * cosine - second * sine, second * cosine + first * sine], -1)

    def compute_output_shape(self, shape: Any) -> Any:
        return shape


def attention(x: Any, kind: str, heads: int, causal: bool) -> Any:
    """Of the kinds plain, grouped, rotary and rotary_normed."""
    width = x.shape[-1] // heads
    if kind == "plain":
        return layers.MultiHeadAttention(heads, width)(x, x, use_causal_mask=causal)
    if kind == "grouped":
        return layers.GroupQueryAttention(width, heads, max(heads // 4, 1))(x, x, use_causal_mask=causal)
    return RotaryAttention(heads, max(heads // 2, 1), width, causal, kind == "rotary_normed")(x)


def feed_forward(x: Any, hidden: int, activation: str, gated: bool, dropout: float) -> Any:
    width = x.shape[-1]
    y = layers.Dense(hidden)(x)
    y = activated(y, activation) * layers.Dense(hidden)(x) if gated else activated(y, activation)
    if dropout:
        y = layers.Dropout(dropout)(y)
    return layers.Dense(width)(y)


def encoder(x: Any, kind: str, heads: int, hidden: int, norm: str, activation: str, gated: bool, before: bool,
            causal: bool, dropout: float) -> Any:  # fmt: skip
    """Attention and a perceptron, each with a norm before it or after it."""
    if before:
        x = x + attention(normalized(x, norm), kind, heads, causal)
        return x + feed_forward(normalized(x, norm), hidden, activation, gated, dropout)
    x = normalized(x + attention(x, kind, heads, causal), norm)
    return normalized(x + feed_forward(x, hidden, activation, gated, dropout), norm)


def decoder(x: Any, memory: Any, heads: int, hidden: int, norm: str, activation: str) -> Any:
    """An encoder of words so far that also attends to another text."""
    width = x.shape[-1] // heads
    y = normalized(x, norm)
    x = x + layers.MultiHeadAttention(heads, width)(y, y, use_causal_mask=True)
    x = x + layers.MultiHeadAttention(heads, width)(normalized(x, norm), memory)
    return x + feed_forward(normalized(x, norm), hidden, activation, False, 0.0)


def mixer(x: Any, hidden: int, norm: str, activation: str) -> Any:
    """Perceptrons over places, then over channels."""
    y = layers.Permute((2, 1))(normalized(x, norm))
    y = layers.Dense(x.shape[1])(layers.Dense(hidden, activation=activation)(y))
    x = x + layers.Permute((2, 1))(y)
    return x + feed_forward(normalized(x, norm), hidden, activation, False, 0.0)


def recurrent(x: Any, kind: str, width: int, both: bool, sequences: bool) -> Any:
    """LSTM, GRU or SimpleRNN, forwards or both ways."""
    layer = getattr(layers, kind)(width, return_sequences=sequences)
    return (layers.Bidirectional(layer) if both else layer)(x)


def dilated(x: Any, filters: int, kernel: int, dilation: int, norm: str, activation: str) -> Any:
    """A causal convolution of a series, beside what it is given where that has its shape."""
    y = layers.Conv1D(filters, kernel, dilation_rate=dilation, padding="causal")(x)
    y = activated(normalized(y, norm), activation)
    return x + y if x.shape == y.shape else y


def separable(x: Any, filters: int, kernel: int, stride: int, norm: str, activation: str) -> Any:
    """A separable convolution of a series."""
    y = layers.SeparableConv1D(filters, kernel, stride, "same", use_bias=norm == "none")(x)
    return activated(normalized(y, norm), activation)


def conformer(x: Any, heads: int, kernel: int, hidden: int) -> Any:
    """Attention and a depthwise convolution between two halves of a perceptron (Gulati et al., 2020)."""
    x = x + 0.5 * feed_forward(layers.LayerNormalization()(x), hidden, "silu", False, 0.0)
    y = layers.LayerNormalization()(x)
    x = x + attention(y, "plain", heads, False)
    y = layers.Dense(2 * x.shape[-1])(layers.LayerNormalization()(x))
    y = y[..., :x.shape[-1]] * ops.sigmoid(y[..., x.shape[-1]:])
    y = layers.BatchNormalization()(layers.DepthwiseConv1D(kernel, padding="same")(y))
    x = x + layers.Dense(x.shape[-1])(activated(y, "silu"))
    x = x + 0.5 * feed_forward(layers.LayerNormalization()(x), hidden, "silu", False, 0.0)
    return layers.LayerNormalization()(x)
