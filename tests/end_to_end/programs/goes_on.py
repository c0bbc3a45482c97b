"""Calls a function for two seconds; prints the last result."""

import time

import tensorflow as tf


@tf.function
def step(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.exp(tf.tanh(x) * 2.0) + x, axis=1)


x = tf.reshape(tf.range(64.0), [4, 16]) / 64.0
start = time.monotonic()
while time.monotonic() < start + 2:
    result = step(x)
    time.sleep(0.01)
print(result.numpy().tolist())
