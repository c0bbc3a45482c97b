"""Trains by calls of one function, whose variables it holds. Prints a digest of what it has learned."""

from __future__ import annotations

import hashlib
import sys

import tensorflow as tf

tf.keras.utils.set_random_seed(0)
weights = [tf.Variable(tf.random.normal([64, 64]) / 8.0) for _ in range(10)]
x = tf.random.normal([64, 64])


@tf.function
def train_step(x: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        y = x
        for weight in weights:
            y = tf.tanh(y * weight) + tf.nn.softmax(y)
        loss = tf.reduce_mean(tf.square(y - x))
    for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
        weight.assign_sub(0.1 * gradient)
    return loss


for _ in range(int(sys.argv[1])):
    train_step(x)
print(hashlib.sha256(b"".join(weight.numpy().tobytes() for weight in weights)).hexdigest())
