"""Functions of places that networks are: a scene's light, a differential equation's solution, an image's slope."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from models.kinds.draws import normal, uniform
from models.kinds.losses import in_float32
from models.kinds.objective import Objective
from models.network import prepared


def _waves(x: Any, octaves: int) -> Any:
    """Numbers with sines and cosines of them, ever faster."""
    return tf.concat([x, *(wave(x * 2.0**octave) for octave in range(octaves) for wave in (tf.sin, tf.cos))], -1)


def _radiance(width: int) -> keras.Model:
    """Color and density, of a place and a direction in waves."""
    place, direction = keras.Input((63,)), keras.Input((27,))
    x = place
    for depth in range(8):
        x = layers.Dense(width, activation="relu")(x)
        if depth == 4:
            x = ops.concatenate([x, place], -1)
    density = layers.Dense(1, bias_initializer="ones")(x)  # that none is below zero, where nothing is learned
    seen = ops.concatenate([layers.Dense(width)(x), direction], -1)
    color = layers.Dense(3)(layers.Dense(width // 2, activation="relu")(seen))
    return keras.Model([place, direction], ops.concatenate([color, density], -1))


def nerf(small: bool) -> Objective:
    """Mildenhall et al., 2020."""
    width, samples = (16, 4) if small else (256, 64)
    model = _radiance(width)

    def loss(colors: Any, origins: Any, directions: Any, jitter: Any) -> Any:
        rays = tf.shape(origins)[0]
        depth = tf.linspace(2.0, 6.0, samples)[None] + jitter * 4.0 / samples
        places = origins[:, None] + directions[:, None] * depth[..., None]
        along = tf.broadcast_to(directions[:, None], tf.shape(places))
        waves = [_waves(tf.reshape(places, (-1, 3)), 10), _waves(tf.reshape(along, (-1, 3)), 4)]
        found = tf.reshape(in_float32(model(waves, training=True)), (rays, samples, 4))
        apart = tf.concat([depth[:, 1:] - depth[:, :-1], tf.ones((rays, 1)) * 1e10], -1)
        opacity = 1 - tf.exp(-tf.nn.relu(found[..., 3]) * apart)
        weights = opacity * tf.math.cumprod(1 - opacity + 1e-10, -1, exclusive=True)
        rendered = tf.reduce_sum(weights[..., None] * tf.sigmoid(found[..., :3]), 1)
        return tf.reduce_mean(tf.square(rendered - colors))

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return *(normal(random, size, 3) for _ in range(3)), uniform(random, size, samples)

    variables = model.trainable_variables
    return Objective(variables, prepared(keras.optimizers.Adam(1e-3), variables), loss, draw)


def pinn(small: bool) -> Objective:
    """Burgers' equation by a network whose derivatives keep to it (Raissi et al., 2019)."""
    width = 16 if small else 128
    hidden = [layers.Dense(width, activation="tanh") for _ in range(5)]
    model = keras.Sequential([keras.Input((2,)), *hidden, layers.Dense(1)])

    def loss(inside: Any, border: Any, wanted: Any) -> Any:
        x, t = inside[:, :1], inside[:, 1:]
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape(persistent=True) as inner:
                inner.watch(x)
                inner.watch(t)
                u = in_float32(model(tf.concat([x, t], 1)))
            u_x, u_t = inner.gradient(u, x), inner.gradient(u, t)
        u_xx = outer.gradient(u_x, x)
        residual = u_t + u * u_x - 0.0032 * u_xx
        error = in_float32(model(border)) - wanted
        return tf.reduce_mean(tf.square(residual)) + tf.reduce_mean(tf.square(error))

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return normal(random, 100 * size, 2), normal(random, size, 2), normal(random, size, 1)

    variables = model.trainable_variables
    return Objective(variables, prepared(keras.optimizers.Adam(1e-3), variables), loss, draw)


def siren(small: bool) -> Objective:
    """Sines between layers, fitted to gradients (Sitzmann et al., 2020)."""
    width, rate = (16 if small else 256), 30.0
    spread = [0.5, *[6**0.5 / width**0.5 / rate] * 4]
    first = [keras.initializers.RandomUniform(-most, most) for most in spread]
    hidden = [layers.Dense(width, activation=lambda x: ops.sin(rate * x), kernel_initializer=own) for own in first[:-1]]
    model = keras.Sequential([keras.Input((2,)), *hidden, layers.Dense(1, kernel_initializer=first[-1])])

    def loss(places: Any, slopes: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(places)
            answer = in_float32(model(places))
        return tf.reduce_mean((tape.gradient(answer, places) - slopes) ** 2)

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return normal(random, size, 2), normal(random, size, 2)

    variables = model.trainable_variables
    return Objective(variables, prepared(keras.optimizers.Adam(1e-3), variables), loss, draw)
