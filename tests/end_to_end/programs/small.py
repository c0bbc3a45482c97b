"""A training step and a function of a few ops: something to go wrong with. Prints the results as JSON."""

from __future__ import annotations

import json

import numpy as np
import tensorflow as tf

x = tf.constant(np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32))
weight = tf.Variable(x[:4])


@tf.function
def train(x: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        y = tf.nn.softmax(tf.matmul(x, weight, transpose_b=True))
        loss = tf.reduce_mean(tf.square(y * 2.0 - 1.0)) + 0.1 * tf.reduce_mean(tf.tanh(weight) ** 2)
    weight.assign_sub(0.1 * tape.gradient(loss, weight))
    return loss


losses = [float(train(x)) for _ in range(3)]
print(json.dumps([*losses, *weight.numpy().ravel().tolist()]))
