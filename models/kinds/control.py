"""Choices that networks learn to make: policies, values of actions, and starting points for new tasks."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from models.kinds.draws import integers, normal
from models.kinds.losses import in_float32
from models.kinds.objective import Objective, following
from models.network import prepared


def ppo(small: bool) -> Objective:
    """Schulman et al., 2017."""
    width, sensors, motors = (16 if small else 256), 17, 6
    seen = keras.Input((sensors,))
    policy, critic = (layers.Dense(width, activation="tanh")(layers.Dense(width, activation="tanh")(seen))
                      for _ in range(2))
    model = keras.Model(seen, [layers.Dense(motors)(policy), layers.Dense(1)(critic)])
    log_deviation = tf.Variable(tf.zeros(motors))

    def loss(observed: Any, actions: Any, before: Any, advantages: Any, returns: Any) -> Any:
        mean, value = map(in_float32, model(observed))
        scores = -0.5 * tf.square((actions - mean) / tf.exp(log_deviation)) - log_deviation - 0.9189385
        ratio = tf.exp(tf.reduce_sum(scores, -1) - before)
        average, variance = tf.nn.moments(advantages, 0)
        gain = (advantages - average) / (tf.sqrt(variance) + 1e-8)
        clipped = tf.minimum(ratio * gain, tf.clip_by_value(ratio, 0.8, 1.2) * gain)
        error = tf.reduce_mean(tf.square(returns - value[:, 0]))
        return -tf.reduce_mean(clipped) + 0.5 * error - 0.01 * tf.reduce_sum(log_deviation)

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return normal(random, size, sensors), normal(random, size, motors), *(normal(random, size) for _ in range(3))

    variables = [*model.trainable_variables, log_deviation]
    return Objective(variables, prepared(keras.optimizers.Adam(3e-4, global_clipnorm=0.5), variables), loss, draw)


def dqn(small: bool) -> Objective:
    """Values of actions on a screen, with a second network for what follows (van Hasselt et al., 2016)."""
    side, width, last, actions = (36, 8, 1, 6) if small else (84, 32, 3, 6)

    def values() -> keras.Model:
        screens = keras.Input((side, side, 4), dtype="uint8")
        x = layers.Rescaling(1 / 255)(screens)
        x = layers.Conv2D(width, 8, strides=4, activation="relu")(x)
        x = layers.Conv2D(width * 2, 4, strides=2, activation="relu")(x)
        x = layers.Flatten()(layers.Conv2D(width * 2, last, activation="relu")(x))
        return keras.Model(screens, layers.Dense(actions)(layers.Dense(width * 16, activation="relu")(x)))

    model, target = values(), values()

    def loss(chosen: Any, rewards: Any, done: Any, screens: Any, following_screens: Any) -> Any:
        best = tf.argmax(model(following_screens), -1)
        later = tf.gather(in_float32(target(following_screens)), best, batch_dims=1)
        wanted = tf.stop_gradient(rewards + 0.99 * (1 - done) * later)
        found = tf.reduce_sum(in_float32(model(screens)) * tf.one_hot(chosen, actions), -1)
        return tf.reduce_mean(keras.losses.huber(wanted[:, None], found[:, None]))

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        chosen, rewards = integers(random, actions, size), normal(random, size)
        done = integers(random, 2, size).astype(np.float32)
        screens = [random.integers(0, 255, (size, side, side, 4)).astype(np.uint8) for _ in range(2)]
        return chosen, rewards, done, *screens

    variables = model.trainable_variables
    return Objective(variables, prepared(keras.optimizers.Adam(1e-3), variables), loss, draw,
                     following(target.variables, model.variables, 0.005))


def maml(small: bool) -> Objective:
    """Weights from which three steps of gradient descent learn a task (Finn et al., 2017)."""
    width = 8 if small else 64
    random = np.random.default_rng(0)
    shapes = ((1, width), (width,), (width, width), (width,), (width, 1), (1,))
    variables = [tf.Variable(random.standard_normal(shape).astype(np.float32) * 0.3) for shape in shapes]

    def answer(x: Any, weights: list[Any]) -> Any:
        for i in (0, 2, 4):
            x = tf.matmul(x, weights[i]) + weights[i + 1][..., None, :]
            if i < 4:
                x = tf.nn.relu(x)
        return x

    def loss(given: Any, wanted: Any, asked: Any, answers: Any) -> Any:
        tasks = given.shape[0]
        weights = [tf.tile(start[None], [tasks] + [1] * len(start.shape)) for start in variables]
        for _ in range(3):
            with tf.GradientTape() as tape:
                tape.watch(weights)
                error = tf.reduce_sum(tf.reduce_mean((answer(given, weights) - wanted) ** 2, (1, 2)))
            gradients = tape.gradient(error, weights)
            weights = [weight - 0.01 * gradient for weight, gradient in zip(weights, gradients, strict=True)]
        return tf.reduce_mean((answer(asked, weights) - answers) ** 2)

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return tuple(normal(random, size, 10, 1) for _ in range(4))

    return Objective(variables, prepared(keras.optimizers.Adam(1e-3), variables), loss, draw)
