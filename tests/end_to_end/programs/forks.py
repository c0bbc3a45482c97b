"""Two processes train after a fork, and one that has trained forks a child without TensorFlow. Prints both results."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import tensorflow as tf


def train() -> list[float]:
    weight = tf.Variable(np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8))

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.softmax(tf.matmul(x, weight)) ** 2) + tf.reduce_mean(tf.tanh(weight) ** 2)
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    x = tf.constant(np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4))
    return [float(step(x)) for _ in range(3)]


def child(work: object) -> str:
    """What a forked process printed that ended as Python programs end."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.write(write, json.dumps(work()).encode())  # type: ignore[operator]
        os.close(write)
        sys.exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        text = file.read()
    if os.waitpid(pid, 0)[1] != 0:
        raise RuntimeError("the forked process failed")
    return text


forked = json.loads(child(train))  # before this process runs an op: TensorFlow's threads do not survive a fork
own = train()
idle = json.loads(child(lambda: [1.0]))
print(json.dumps([*forked, *own, *idle]))
