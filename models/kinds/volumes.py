"""Three axes: volumes, films, and clouds of points."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers, ops

from models.kinds.draws import normal, uniform
from models.kinds.losses import cross_entropy, squared_error
from models.network import Network, prepared


def unet3d(small: bool) -> Network:
    """Çiçek et al., 2016."""
    (side, width), classes = (16, 4) if small else (64, 16), 3
    x = volume = keras.Input((side, side, side, 1))
    skipped = []

    def block(x: Any, width: int) -> Any:
        for _ in range(2):
            x = layers.Conv3D(width, 3, padding="same", use_bias=False)(x)
            x = layers.ReLU()(layers.BatchNormalization()(x))
        return x

    for wider in (1, 2, 4):
        x = block(x, width * wider)
        skipped.append(x)
        x = layers.MaxPooling3D()(x)
    x = block(x, width * 8)
    for wider in (4, 2, 1):
        x = layers.Conv3DTranspose(width * wider, 2, strides=2)(x)
        x = block(ops.concatenate([x, skipped.pop()], -1), width * wider)
    model = keras.Model(volume, layers.Conv3D(classes, 1)(x))

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return random.integers(0, classes, (size, side, side, side)), normal(random, size, side, side, side, 1)

    return Network(model, prepared(keras.optimizers.Adam(1e-3), model.trainable_variables), cross_entropy, draw)


def convlstm(small: bool) -> Network:
    """Films of the same length by recurrent convolutions (Shi et al., 2015)."""
    side, width, length = (8, 4, 4) if small else (64, 64, 10)
    x = film = keras.Input((length, side, side, 1))
    for _ in range(2):
        x = layers.ConvLSTM2D(width, 3, padding="same", return_sequences=True)(x)
        x = layers.BatchNormalization()(x)
    model = keras.Model(film, layers.Conv3D(1, 3, padding="same", activation="sigmoid")(x))

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return tuple(uniform(random, size, length, side, side, 1) for _ in range(2))

    return Network(model, prepared(keras.optimizers.Adam(1e-3), model.trainable_variables), squared_error, draw)


def _turned(points: Any, width: int, axes: int) -> Any:
    """Points times a matrix that all of them have a say in, at first the identity."""
    x = points
    for size in (width // 2, width, width * 8):
        x = _pointwise(x, size)
    x = layers.Dense(width * 2, activation="relu")(layers.GlobalMaxPooling1D()(x))
    x = layers.Dense(axes * axes, bias_initializer=lambda shape, dtype=None: ops.reshape(ops.eye(axes), shape))(x)
    return layers.Dot(axes=(2, 1))([points, layers.Reshape((axes, axes))(x)])


def _pointwise(x: Any, width: int) -> Any:
    return layers.ReLU()(layers.BatchNormalization(momentum=0.0)(layers.Conv1D(width, 1)(x)))


def pointnet(small: bool) -> Network:
    """Qi et al., 2017."""
    (points, width), classes = (32, 8) if small else (2048, 64), 10
    cloud = keras.Input((points, 3))
    x = _turned(cloud, width, 3)
    for size in (width // 2, width // 2):
        x = _pointwise(x, size)
    x = _turned(x, width, width // 2)
    for size in (width // 2, width, width * 8):
        x = _pointwise(x, size)
    x = layers.Dense(256, activation="relu")(layers.GlobalMaxPooling1D()(x))
    model = keras.Model(cloud, layers.Dense(classes)(layers.Dropout(0.3)(x)))

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return random.integers(0, classes, size), normal(random, size, points, 3)

    return Network(model, prepared(keras.optimizers.Adam(1e-3), model.trainable_variables), cross_entropy, draw)
