"""A training step of two feeds whose batches meet in matmuls and sums, like those of a decoder that attends to an
encoder's output. Prints the greatest relative difference from a function that TensorFlow alone runs.

    python two_batches.py PAIRS      4x4,2x2: sizes of the two batches, step by step
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import tensorflow as tf

WIDTH = 8
weights = [tf.constant(np.random.default_rng(i).standard_normal((WIDTH, WIDTH)) / 3, tf.float32) for i in range(3)]


def dropout(x: Any, seed: int) -> Any:
    return tf.where(tf.random.stateless_uniform(tf.shape(x), [seed, 1]) < 0.8, x * 1.25, 0.0)


def loss(source: Any, target: Any) -> Any:
    memory = tf.tanh(tf.linalg.matmul(dropout(source, 1), weights[0]))
    x = tf.tanh(tf.linalg.matmul(dropout(target, 2), weights[1]))
    scores = tf.linalg.matmul(x, memory, transpose_b=True) + tf.reduce_sum(source, 2)[:, None]
    read = tf.linalg.matmul(dropout(tf.nn.softmax(scores), 3), memory)
    out = tf.exp(dropout(tf.linalg.matmul(tf.nn.relu(read) + x, weights[2]), 4)) * tf.sigmoid(source[:, :1])
    return tf.reduce_mean(tf.math.square(out) - target, [1, 2])


def step(source: Any, target: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch([source, target])
        value = loss(source, target)
    return value, *tape.gradient(value, [source, target])


def main() -> None:
    spec = tf.TensorSpec([None, None, WIDTH])
    stitched = tf.function(step, input_signature=[spec, spec])
    random, worst = np.random.default_rng(0), 0.0
    for pair in sys.argv[1].split(","):
        sizes = map(int, pair.split("x"))
        feeds = [tf.constant(random.standard_normal((size, length, WIDTH)), tf.float32)
                 for size, length in zip(sizes, (5, 3), strict=True)]
        for have, want in zip(stitched(*feeds), step(*feeds), strict=True):
            assert have.shape == want.shape, (have.shape, want.shape)
            worst = max(worst, float(np.abs(have - want).max() / np.abs(want).max()))
    print(worst)


main()
