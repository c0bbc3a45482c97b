"""Ends while a compiler runs for a step of another thread, or beside it, and more builds wait."""

from __future__ import annotations

import threading
import time

import tensorflow as tf

calls = tf.Variable(0)


@tf.function
def step(x: tf.Tensor, branch: tf.Tensor) -> tf.Tensor:
    calls.assign_add(1)
    y = tf.nn.softmax(tf.tanh(x) * 2.0 + 1.0)
    for i in range(4):  # four more regions
        y = tf.cond(branch > i, lambda: tf.sin(y) * tf.cos(y) + y / (i + 2.0), lambda: y)  # noqa: B023
    return y


def steps() -> None:
    for _ in range(2):
        step(tf.ones([8, 100]), tf.constant(0))


threading.Thread(target=steps, daemon=True).start()
time.sleep(2)
print("left", flush=True)
