"""Calls one function on the same tensors for a second, and again when its kernels are there. Prints how many different
results it gave: TensorFlow's, and those of kernels."""

from __future__ import annotations

import sys
import time

import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x, y = (tf.constant(rng.random(shape) * 3 + 0.5, tf.float32) for shape in ((300, 700), (700,)))


@tf.function
def rows(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(1.1 * tf.pow(x, y) + tf.tanh(x), 1)


seen, end = set(), time.monotonic() + 1
while time.monotonic() < end:
    seen.add(rows(x, y).numpy().tobytes())
if "tf_stitch" in sys.modules:
    import tf_stitch

    assert tf_stitch.wait(200)
seen.add(rows(x, y).numpy().tobytes())
print(len(seen))
