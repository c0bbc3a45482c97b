"""Somebody presses Ctrl-C while a compiler runs, and goes on."""

from __future__ import annotations

import json
import signal

import tensorflow as tf


@tf.function
def step(x: tf.Tensor) -> tf.Tensor:
    return tf.nn.softmax(tf.tanh(x) * 2.0 + 1.0)


signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs behind it without one
interrupted = False
try:
    step(tf.ones([8, 100]))
except KeyboardInterrupt:
    interrupted = True
print(json.dumps({"interrupted": interrupted, "result": float(tf.reduce_sum(step(tf.ones([8, 100]))))}))
