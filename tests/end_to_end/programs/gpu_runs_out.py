"""Trains with as much GPU memory as the argument says (megabytes) in a step that needs more, then in one that does not;
prints what became of both, and a variable that either would change."""

from __future__ import annotations

import json
import sys

import numpy as np
import tensorflow as tf

[gpu] = tf.config.list_physical_devices("GPU")[:1]
tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=int(sys.argv[1]))])
weight = tf.Variable(np.linspace(0.5, 1.5, 64, dtype=np.float32))


@tf.function
def step(x: tf.Tensor) -> tf.Tensor:
    y = tf.nn.softmax(tf.tanh(x * weight) * 2.0 + 1.0)
    z = tf.transpose(tf.reshape(y, [64, -1])) + tf.exp(y)
    weight.assign_sub(0.1 * tf.reduce_mean(y * z, 0))
    return tf.reduce_sum(z, axis=0)


said: list[object] = []
for rows in (64, 8_000_000, 64):
    try:
        said.append(step(tf.zeros([rows, 64]) + 0.5).numpy().tolist())
    except tf.errors.ResourceExhaustedError:
        said.append("out of memory")
    said.append(weight.numpy().tolist())
print(json.dumps(said))
