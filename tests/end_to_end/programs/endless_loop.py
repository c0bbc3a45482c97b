"""Runs a loop that never ends, and after Ctrl-C the same loop for three iterations. Arguments: "session" or "function",
and "warm" if the loop has run before."""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

import numpy as np
import tensorflow as tf

FOR_EVER = 2**62
x = np.arange(800, dtype=np.float32).reshape(8, 100) / 800


def loop(limit: Any, x: Any) -> Any:
    return tf.while_loop(lambda i, y: i < limit, lambda i, y: (i + 1, tf.nn.softmax(tf.tanh(y) * 2.0)),
                         (tf.constant(0, tf.int64), x))[1]


signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs behind it without one
if sys.argv[1] == "session":
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        given = v1.placeholder(tf.int64, []), v1.placeholder(tf.float32, [8, 100])
        result = loop(*given)
        session = v1.Session()

    def run(limit: int) -> Any:
        return session.run(result, dict(zip(given, (limit, x), strict=True)))
else:
    function = tf.function(loop, input_signature=[tf.TensorSpec([], tf.int64), tf.TensorSpec([8, 100])])

    def run(limit: int) -> Any:
        return function(limit, x).numpy()


if sys.argv[2] == "warm":
    run(3)
print("begun", flush=True)
try:
    run(FOR_EVER)
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(json.dumps(run(3).sum(axis=0).tolist()), flush=True)
