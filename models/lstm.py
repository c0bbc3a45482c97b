"""Stacks of LSTM layers as users of Keras write them, by themselves and as language models (Zaremba et al., 2014)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import layers

from models.network import Network, with_loss_scaling

NAMES = ("LSTM", "LSTMByCuDNN", "LSTMLanguage", "LSTMLanguageByCuDNN")
"""ByCuDNN: on a GPU the layers are cuDNN's op each, for which XLA has none; the others are loops."""


@dataclass(frozen=True)
class Config:
    """Sizes; `vocabulary` of language models alone."""

    layers: int
    width: int
    length: int
    vocabulary: int


PAPER = Config(layers=2, width=256, length=100, vocabulary=10000)
SMALL = Config(layers=2, width=8, length=5, vocabulary=20)


def build(name: str, config: Config = PAPER) -> Network:
    """A network with new weights and Adam.

    Raises:
        ValueError: there is none of that name.
    """
    if name not in NAMES:
        raise ValueError(f"no network {name!r}; there are {', '.join(NAMES)}")
    language = "Language" in name
    given = keras.Input((config.length,), dtype="int32") if language else keras.Input((config.length, config.width))
    x = layers.Embedding(config.vocabulary, config.width)(given) if language else given
    for _ in range(config.layers):
        x = layers.LSTM(config.width, return_sequences=True, use_cudnn="auto" if "CuDNN" in name else False)(x)
    model = keras.Model(given, layers.Dense(config.vocabulary)(x) if language else x)
    optimizer = with_loss_scaling(keras.optimizers.Adam(1e-3))
    optimizer.build(model.trainable_variables)

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        if not language:
            shape = (2, size, config.length, config.width)
            return tuple(random.standard_normal(shape).astype(np.float32))
        text = random.integers(0, config.vocabulary, (size, config.length + 1)).astype(np.int32)
        return text[:, 1:], text[:, :-1]

    return Network(model, optimizer, _cross_entropy if language else keras.losses.mean_squared_error, draw)


def _cross_entropy(wanted: Any, logits: Any) -> Any:
    return keras.losses.sparse_categorical_crossentropy(wanted, logits, from_logits=True)
