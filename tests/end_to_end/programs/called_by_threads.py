"""Four threads call one function, again and again, and the main thread waits for its kernels meanwhile. Prints the sum
of what each call gave, and how often a variable was counted up."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf

x = tf.constant(np.random.default_rng(3).standard_normal((64, 48)).astype(np.float32))
counter = tf.Variable(0.0)


@tf.function
def step(x: tf.Tensor) -> tf.Tensor:
    counter.assign_add(1.0)
    return tf.reduce_sum(tf.nn.softmax(tf.tanh(x) * 2.0 + 1.0) ** 2)


def many(_: int) -> list[float]:
    return [float(step(x)) for _ in range(100)]


with ThreadPoolExecutor(4) as pool:
    results = [value for values in pool.map(many, range(4)) for value in values]
if "tf_stitch" in sys.modules:
    import tf_stitch

    assert tf_stitch.wait(200)
results += [float(step(x)) for _ in range(100)]
print(json.dumps([*results, float(counter)]))
