"""Softmaxes and sums of columns, then waits until both are tuned, for a minute at most. Prints the results as JSON.

On two cores at most: more share a sum of columns among two kernels.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
x = tf.constant(np.random.default_rng(0).standard_normal((300, 4096)).astype(np.float32))


@tf.function
def rows(x: tf.Tensor) -> tf.Tensor:
    return tf.nn.softmax(tf.tanh(x) * 3.0) + 1.0


@tf.function
def columns(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.exp(x) * 2.0, axis=0)


results = [float(tf.reduce_mean(tf.square(function(x)))) for function in (rows, columns)]
end = time.time() + float(sys.argv[1])
while time.time() < end:
    files = list(Path(os.environ["TF_STITCH_CACHE"], "templates").glob("*.json"))
    if files and len(json.JSONDecoder().raw_decode(files[0].read_text())[0]) >= 2:  # its digest follows
        break
    time.sleep(0.1)
print(json.dumps(results))
