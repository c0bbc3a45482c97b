"""Eight threads call one function with the same few lengths in orders of their own, while its regions are built. Prints
the largest difference from NumPy."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf

tf.config.experimental.enable_tensor_float_32_execution(False)
THREADS, ROUNDS, LENGTHS = 8, 6, (12, 13, 16, 15, 33)
WEIGHTS = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
weights, calls = tf.Variable(WEIGHTS), tf.Variable(tf.zeros([64]))


@tf.function(input_signature=[tf.TensorSpec([None, 16])], autograph=False)
def function(x: tf.Tensor) -> tf.Tensor:
    y = tf.nn.softmax(tf.matmul(tf.tanh(x) * 2.0, weights))
    calls.assign_add(tf.ones([64]))
    return tf.reduce_sum(y * x, 1) + tf.reduce_max(y, 1)


def wanted(x: np.ndarray) -> np.ndarray:
    y = np.exp(np.tanh(x.astype(np.float64)) * 2 @ WEIGHTS)
    y /= y.sum(1, keepdims=True)
    return (y * x).sum(1) + y.max(1)


def thread(number: int) -> float:
    worst = 0.0
    for turn in range(ROUNDS):
        for length in random.Random(number).sample(LENGTHS, len(LENGTHS)):
            x = np.random.default_rng([number, turn, length]).standard_normal((length, 16)).astype(np.float32)
            worst = max(worst, float(np.max(np.abs(function(tf.constant(x)).numpy() - wanted(x)))))
    return worst


with ThreadPoolExecutor(THREADS) as pool:
    worst = max(pool.map(thread, range(THREADS)))
assert (calls.numpy() == THREADS * ROUNDS * len(LENGTHS)).all(), "an update was lost"
print(worst)
