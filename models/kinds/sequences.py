"""Sequences: speech by attention and convolutions, sound sample by sample, text by weights of low rank, and by
convolutions alone."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers, ops

from models.kinds.draws import integers, normal
from models.kinds.losses import cross_entropy, squared_error
from models.network import Network, prepared


def _network(model: keras.Model, optimizer: keras.optimizers.Optimizer, draw: Any) -> Network:
    return Network(model, prepared(optimizer, model.trainable_variables), cross_entropy, draw)


def conformer(small: bool) -> Network:
    """Gulati et al., 2020, that says a sound for each frame."""
    depth, width, heads, frames, sounds = (1, 16, 2, 24, 10) if small else (8, 256, 4, 400, 64)
    sound = keras.Input((frames, 80))
    x = layers.Dense(width)(sound)

    def half(x: Any) -> Any:
        y = layers.Dense(4 * width, activation="silu")(layers.LayerNormalization()(x))
        return x + 0.5 * layers.Dropout(0.1)(layers.Dense(width)(y))

    for _ in range(depth):
        x = half(x)
        y = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(heads, width // heads)(y, y)
        value, gate = ops.split(layers.Conv1D(2 * width, 1)(layers.LayerNormalization()(x)), 2, -1)
        y = layers.DepthwiseConv1D(15, padding="same")(value * ops.sigmoid(gate))
        x = x + layers.Conv1D(width, 1)(layers.Activation("silu")(layers.BatchNormalization()(y)))
        x = layers.LayerNormalization()(half(x))
    model = keras.Model(sound, layers.Dense(sounds)(x))

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        given = random.standard_normal((size, frames, 80)).astype(np.float32)
        return random.integers(0, sounds, (size, frames)), given

    return _network(model, keras.optimizers.Adam(1e-3, global_clipnorm=1.0), draw)


def wavenet(small: bool) -> Network:
    """Gated causal convolutions, ever more dilated (van den Oord et al., 2016)."""
    rounds, width, length = (1, 8, 64) if small else (3, 64, 4096)
    samples = keras.Input((length,), dtype="int32")
    x, skipped = layers.Embedding(256, width)(samples), []
    for dilation in [2**i for i in range(4 if small else 10)] * rounds:
        value, gate = (layers.Conv1D(width, 2, dilation_rate=dilation, padding="causal", activation=how)(x)
                       for how in ("tanh", "sigmoid"))
        skipped.append(layers.Conv1D(width, 1)(value * gate))
        x = x + layers.Conv1D(width, 1)(value * gate)
    x = layers.Conv1D(2 * width, 1, activation="relu")(layers.ReLU()(layers.Add()(skipped)))
    model = keras.Model(samples, layers.Conv1D(256, 1)(x))

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        sound = random.integers(0, 256, (size, length + 1)).astype(np.int32)
        return sound[:, 1:], sound[:, :-1]

    return _network(model, keras.optimizers.Adam(1e-3), draw)


def lora(small: bool) -> Network:
    """A language model whose weights stay, but for additions of low rank (Hu et al., 2021), trained by Adafactor."""
    depth, width, heads, length, vocabulary = (1, 16, 2, 16, 50) if small else (6, 768, 12, 256, 32000)
    text = keras.Input((length,), dtype="int32")
    words = layers.Embedding(vocabulary, width)
    x = words(text)
    for _ in range(depth):
        y = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(heads, width // heads)(y, y, use_causal_mask=True)
        x = x + layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(x)))
    model = keras.Model(text, layers.Dense(vocabulary)(layers.LayerNormalization()(x)))
    for layer in model.layers:
        if isinstance(layer, layers.MultiHeadAttention):
            layer.query_dense.enable_lora(8)
            layer.value_dense.enable_lora(8)
        elif isinstance(layer, layers.Dense | layers.Embedding):
            layer.enable_lora(8)
        layer.trainable = not isinstance(layer, layers.LayerNormalization)

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        words = random.integers(0, vocabulary, (size, length + 1)).astype(np.int32)
        return words[:, 1:], words[:, :-1]

    return _network(model, keras.optimizers.Adafactor(1e-2), draw)


def tcn(small: bool) -> Network:
    """Causal convolutions in residual blocks (Bai et al., 2018)."""
    length, width = (16, 8) if small else (512, 64)
    given = keras.Input((length, 8))
    x = layers.Conv1D(width, 1)(given)

    def convolution(x: Any, dilation: int) -> Any:
        x = layers.Conv1D(width, 3, dilation_rate=dilation, padding="causal")(x)
        return layers.ReLU()(layers.LayerNormalization()(x))

    for dilation in (1, 2, 4, 8, 16, 32):
        y = layers.Dropout(0.1)(convolution(x, dilation))
        x = layers.ReLU()(x + convolution(y, dilation))
    model = keras.Model(given, layers.Dense(1)(x))

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return normal(random, size, length, 1), normal(random, size, length, 8)

    return Network(model, prepared(keras.optimizers.Adam(1e-3), model.trainable_variables), squared_error, draw)


def textcnn(small: bool) -> Network:
    """Classes of texts, by the strongest answers to kernels of three sizes (Kim, 2014)."""
    (length, width), vocabulary = (16, 8) if small else (400, 128), 20000
    text = keras.Input((length,), dtype="int32")
    x = layers.SpatialDropout1D(0.2)(layers.Embedding(vocabulary, width)(text))
    found = [layers.GlobalMaxPooling1D()(layers.Conv1D(width, size, activation="relu")(x)) for size in (3, 4, 5)]
    model = keras.Model(text, layers.Dense(2)(layers.Dropout(0.5)(ops.concatenate(found, -1))))

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return random.integers(0, 2, size), integers(random, vocabulary, size, length, first=1)

    return _network(model, keras.optimizers.Adam(1e-3), draw)
