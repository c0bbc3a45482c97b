"""Trains by a function of several regions and, unless told otherwise, a loop. Prints the losses, and the weights at the
end. Arguments: steps, seconds to wait after each, perhaps "straight"."""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise

import numpy as np
import tensorflow as tf

STEPS, PAUSE, LOOPS = int(sys.argv[1]), float(sys.argv[2]), "straight" not in sys.argv
SIZES = (48, 96, 64, 8)
rng = np.random.default_rng(3)
weights = [tf.Variable((rng.standard_normal((a, b)) / np.sqrt(a)).astype(np.float32)) for a, b in pairwise(SIZES)]


@tf.function
def train(x: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        for weight in weights:
            y = tf.matmul(x, weight)
            x = tf.tanh((y - tf.reduce_mean(y, -1, keepdims=True)) * tf.math.rsqrt(tf.reduce_mean(y * y) + 1e-3))
        decayed = x
        if LOOPS:
            decayed = tf.while_loop(lambda i, _: i < 5, lambda i, a: (i + 1, a * 0.9 + tf.tanh(a)), (0, x))[1]
        loss = tf.reduce_mean(tf.nn.softmax(x) ** 2) + tf.reduce_mean(decayed ** 2)
    for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
        weight.assign_sub(1e-3 * gradient / (1.0 + tf.abs(gradient)))
    return loss


losses = []
for _ in range(STEPS):
    losses.append(float(train(tf.constant(rng.standard_normal((32, SIZES[0])).astype(np.float32)))))
    time.sleep(PAUSE)
print(json.dumps([*losses, *(float(v) for w in weights for v in w.numpy().ravel())]))
