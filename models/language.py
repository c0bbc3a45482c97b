"""Transformers as users of Keras write them: language models with their heads, an encoder with masked words, one of
images, an encoder and decoder with relative biases, and a mixture of experts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from models.network import Network, with_loss_scaling

NAMES = ("GPT2", "Llama", "BERT", "ViT", "T5", "MoE")
PATCH = 16
BUCKETS, FAR = 32, 128
"""Of T5's relative biases: how many, and from which distance on all are one."""
EXPERTS, ROOM = 8, 1.25
"""A mixture of experts: how many, and how many words each takes, of what it would get if all got as many."""


@dataclass(frozen=True)
class Config:
    """Sizes; `length` in words, or the height and width of images."""

    layers: int
    width: int
    heads: int
    length: int
    vocabulary: int


CONFIGS = {
    "GPT2": Config(12, 768, 12, 256, 50257),
    "Llama": Config(8, 1024, 16, 512, 32000),
    "BERT": Config(12, 768, 12, 256, 30522),
    "ViT": Config(12, 768, 12, 224, 1000),
    "T5": Config(6, 512, 8, 256, 32128),
    "MoE": Config(6, 512, 8, 256, 32000),
}
SMALL = {name: Config(2, 32, 4, 32 if name == "ViT" else 16, 64) for name in NAMES}


def build(name: str, config: Config | None = None) -> Network:
    """A network with new weights and AdamW.

    Raises:
        ValueError: there is none of that name.
    """
    if name not in NAMES:
        raise ValueError(f"no network {name!r}; there are {', '.join(NAMES)}")
    config = config or CONFIGS[name]
    make: Callable[[Config], keras.Model] = {"GPT2": _gpt2, "Llama": _llama, "BERT": _bert, "ViT": _vit, "T5": _t5,
                                             "MoE": _moe}[name]
    model = make(config)
    optimizer = with_loss_scaling(keras.optimizers.AdamW(1e-4))
    optimizer.build(model.trainable_variables)

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        if name == "ViT":
            image = random.standard_normal((size, config.length, config.length, 3)).astype(np.float32)
            return random.integers(0, config.vocabulary, size), image
        text = random.integers(0, config.vocabulary, (size, config.length + 1))
        return text[:, 1:], *[text[:, :-1]] * len(model.inputs)

    return Network(model, optimizer, _cross_entropy, draw)


def _cross_entropy(wanted: Any, logits: Any) -> Any:
    return keras.losses.sparse_categorical_crossentropy(wanted, logits, from_logits=True)


class Head(layers.Layer):
    """Scores of all words, by the embeddings that the words came in with."""

    def __init__(self, words: layers.Embedding, scale: float = 1.0) -> None:
        super().__init__()
        self.words, self.scale = words, scale

    def call(self, x: Any) -> Any:
        return ops.matmul(x * self.scale, ops.transpose(ops.cast(self.words.embeddings, x.dtype)))


class Places(layers.Layer):
    """Adds an embedding for each place."""

    def build(self, shape: Any) -> None:
        self.table = self.add_weight(shape=shape[1:], initializer=keras.initializers.RandomNormal(stddev=0.02))

    def call(self, x: Any) -> Any:
        return x + self.table


def _embedding(config: Config) -> layers.Embedding:
    return layers.Embedding(config.vocabulary, config.width, keras.initializers.RandomNormal(stddev=0.02))


def _encoder_layer(x: Any, config: Config, causal: bool) -> Any:
    """With its norms before what is added (GPT-2, ViT)."""
    y = layers.LayerNormalization(epsilon=1e-5)(x)
    x = x + layers.MultiHeadAttention(config.heads, config.width // config.heads)(y, y, use_causal_mask=causal)
    y = layers.Dense(4 * config.width, activation="gelu")(layers.LayerNormalization(epsilon=1e-5)(x))
    return x + layers.Dense(config.width)(y)


def _gpt2(config: Config) -> keras.Model:
    """Radford et al., 2019."""
    text = keras.Input((config.length,), dtype="int64")
    words = _embedding(config)
    x = Places()(words(text))
    for _ in range(config.layers):
        x = _encoder_layer(x, config, causal=True)
    return keras.Model(text, Head(words)(layers.LayerNormalization(epsilon=1e-5)(x)))


def _vit(config: Config) -> keras.Model:
    """Dosovitskiy et al., 2020, with the mean of all patches for the class."""
    image = keras.Input((config.length, config.length, 3))
    x = layers.Conv2D(config.width, PATCH, PATCH)(image)
    x = Places()(layers.Reshape((-1, config.width))(x))
    for _ in range(config.layers):
        x = _encoder_layer(x, config, causal=False)
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization(epsilon=1e-5)(x))
    return keras.Model(image, layers.Dense(config.vocabulary)(x))


def _bert(config: Config) -> keras.Model:
    """Devlin et al., 2018: norms behind what is added; the words that were masked are to be found."""
    text = keras.Input((config.length,), dtype="int64")
    words = _embedding(config)
    x = layers.Dropout(0.1)(layers.LayerNormalization(epsilon=1e-6)(Places()(words(text))))
    for _ in range(config.layers):
        y = layers.MultiHeadAttention(config.heads, config.width // config.heads, dropout=0.1)(x, x)
        x = layers.LayerNormalization(epsilon=1e-6)(x + layers.Dropout(0.1)(y))
        y = layers.Dense(config.width)(layers.Dense(4 * config.width, activation="gelu")(x))
        x = layers.LayerNormalization(epsilon=1e-6)(x + layers.Dropout(0.1)(y))
    x = layers.LayerNormalization(epsilon=1e-6)(layers.Dense(config.width, activation="gelu")(x))
    return keras.Model(text, Head(words)(x))


class RotaryAttention(layers.Layer):
    """Causal attention with rotary embeddings (Su et al., 2021) and keys that groups of heads share."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, self.groups, self.size = config.heads, config.heads // 2, config.width // config.heads
        self.query, self.out = (layers.Dense(config.width, use_bias=False) for _ in range(2))
        self.key, self.value = (layers.Dense(self.groups * self.size, use_bias=False) for _ in range(2))
        angle = np.arange(config.length)[:, None] / 10000 ** (np.arange(0, self.size, 2) / self.size)
        turns = np.concatenate([angle, angle], -1)[:, None]
        self.cosines, self.sines = np.cos(turns).astype(np.float32), np.sin(turns).astype(np.float32)

    def call(self, x: Any) -> Any:
        query = self._turned(ops.reshape(self.query(x), (-1, x.shape[1], self.heads, self.size)))
        key, value = (ops.reshape(dense(x), (-1, x.shape[1], self.groups, self.size))
                      for dense in (self.key, self.value))
        key, value = (ops.repeat(y, self.heads // self.groups, 2) for y in (self._turned(key), value))
        mixed = ops.dot_product_attention(query, key, value, is_causal=True)
        return self.out(ops.reshape(mixed, (-1, x.shape[1], self.heads * self.size)))

    def _turned(self, x: Any) -> Any:
        first, second = ops.split(x, 2, -1)
        other = ops.concatenate([-second, first], -1)
        return x * ops.cast(self.cosines, x.dtype) + other * ops.cast(self.sines, x.dtype)


def _llama(config: Config) -> keras.Model:
    """Touvron et al., 2023."""
    text = keras.Input((config.length,), dtype="int64")
    x = _embedding(config)(text)
    hidden = config.width * 8 // 3
    for _ in range(config.layers):
        x = x + RotaryAttention(config)(layers.RMSNormalization()(x))
        y = layers.RMSNormalization()(x)
        gate = layers.Dense(hidden, activation="silu", use_bias=False)(y)
        x = x + layers.Dense(config.width, use_bias=False)(gate * layers.Dense(hidden, use_bias=False)(y))
    return keras.Model(text, layers.Dense(config.vocabulary, use_bias=False)(layers.RMSNormalization()(x)))


def _bucket(distance: np.ndarray, both: bool) -> np.ndarray:
    """Which bias is for a key so far behind a query: exact near by, by logarithms farther on (T5)."""
    count, first = (BUCKETS // 2, np.where(distance > 0, BUCKETS // 2, 0)) if both else (BUCKETS, 0)
    distance = np.abs(distance) if both else np.maximum(-distance, 0)
    near = count // 2
    far = near + (np.log(np.maximum(distance, 1) / near) / math.log(FAR / near) * (count - near)).astype(int)
    buckets: np.ndarray = first + np.where(distance < near, distance, np.minimum(far, count - 1))
    return buckets.astype(np.int32)


class BiasedAttention(layers.Layer):
    """Attention without a scale, with what is added to the scores."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, self.size = config.heads, config.width // config.heads
        self.query, self.key, self.value, self.out = (layers.Dense(config.width, use_bias=False) for _ in range(4))

    def call(self, x: Any, memory: Any, bias: Any = None) -> Any:
        query, key, value = (ops.reshape(dense(y), (-1, y.shape[1], self.heads, self.size)) for dense, y in
                             ((self.query, x), (self.key, memory), (self.value, memory)))
        scores = ops.einsum("bqhd,bkhd->bhqk", query, key)
        weights = ops.softmax(scores if bias is None else scores + ops.cast(bias, scores.dtype))
        mixed = ops.einsum("bhqk,bkhd->bqhd", weights, value)
        return self.out(ops.reshape(mixed, (-1, x.shape[1], self.heads * self.size)))


class RelativeBias(layers.Layer):
    """A bias for each head and distance: [1, heads, length, length], the same for all layers."""

    def __init__(self, heads: int, length: int, both: bool) -> None:
        super().__init__()
        distance = np.arange(length)[None] - np.arange(length)[:, None]
        self.buckets, self.hidden = _bucket(distance, both), np.float32(-1e9) * (distance > 0) * (not both)
        self.table = self.add_weight(shape=(BUCKETS, heads), initializer="glorot_uniform")

    def call(self, _: Any) -> Any:
        bias = ops.transpose(ops.take(self.table, self.buckets, axis=0), (2, 0, 1))[None]
        return ops.cast(bias, "float32") + self.hidden.astype(np.float32)


def _t5(config: Config) -> keras.Model:
    """Raffel et al., 2019."""
    text, target = (keras.Input((config.length,), dtype="int64") for _ in range(2))
    words = _embedding(config)

    def attended(x: Any, memory: Any = None, bias: Any = None) -> Any:
        y = layers.RMSNormalization()(x)
        return x + BiasedAttention(config)(y, y if memory is None else memory, bias)

    def fed(x: Any) -> Any:
        y = layers.Dense(4 * config.width, activation="relu", use_bias=False)(layers.RMSNormalization()(x))
        return x + layers.Dense(config.width, use_bias=False)(y)

    x = words(text)
    bias = RelativeBias(config.heads, config.length, both=True)(x)
    for _ in range(config.layers):
        x = fed(attended(x, bias=bias))
    memory, x = layers.RMSNormalization()(x), words(target)
    bias = RelativeBias(config.heads, config.length, both=False)(x)
    for _ in range(config.layers):
        x = fed(attended(attended(x, bias=bias), memory))
    return keras.Model([text, target], Head(words, config.width**-0.5)(layers.RMSNormalization()(x)))


class Experts(layers.Layer):
    """Each word goes to the two of some dense networks that a gate likes best, as long as these have room (GShard;
    Lepikhin et al., 2020)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gate = layers.Dense(EXPERTS, use_bias=False, dtype="float32")
        width, hidden = config.width, 4 * config.width
        self.up = self.add_weight(shape=(EXPERTS, width, hidden), initializer="glorot_uniform")
        self.down = self.add_weight(shape=(EXPERTS, hidden, width), initializer="glorot_uniform")

    def call(self, x: Any) -> Any:
        room = max(int(ROOM * 2 * x.shape[1] / EXPERTS), 1)
        shares, chosen = ops.top_k(ops.softmax(self.gate(x)), 2)
        first, second = (ops.one_hot(chosen[..., i], EXPERTS, dtype="float32") for i in range(2))
        taken = ops.cumsum(first, axis=1) - first
        after = ops.cumsum(second, axis=1) - second + ops.sum(first, axis=1, keepdims=True)
        sent = sum(shares[..., i, None, None] * mine[..., None]
                   * ops.one_hot(ops.cast(ops.sum(place * mine, -1), "int32"), room, dtype="float32")[..., None, :]
                   for i, (mine, place) in enumerate(((first, taken), (second, after))))
        sent = ops.cast(sent, x.dtype)
        theirs = ops.einsum("bsec,bsm->ebcm", ops.cast(sent > 0, x.dtype), x)
        up, down = (ops.cast(weight, x.dtype) for weight in (self.up, self.down))
        theirs = ops.einsum("ebch,ehm->ebcm", ops.gelu(ops.einsum("ebcm,emh->ebch", theirs, up)), down)
        return ops.einsum("bsec,ebcm->bsm", sent, theirs)


def _moe(config: Config) -> keras.Model:
    text = keras.Input((config.length,), dtype="int64")
    words = _embedding(config)
    x = Places()(words(text))
    for _ in range(config.layers):
        y = layers.LayerNormalization(epsilon=1e-5)(x)
        x = x + layers.MultiHeadAttention(config.heads, config.width // config.heads)(y, y, use_causal_mask=True)
        x = x + Experts(config)(layers.LayerNormalization(epsilon=1e-5)(x))
    return keras.Model(text, Head(words)(layers.LayerNormalization(epsilon=1e-5)(x)))
