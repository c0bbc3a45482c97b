"""Trains, uses and drops Keras models. Prints JSON: kB by which each, after the first ones, has made the process grow,
and regions that are kept at the end."""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import time

import numpy as np
import tensorflow as tf

first, count = int(sys.argv[1]), int(sys.argv[2])


def run(number: int) -> None:
    width = 16 + number
    layer = tf.keras.layers
    model = tf.keras.Sequential([layer.Dense(width, "gelu"), layer.LayerNormalization(), layer.Dense(4, "softmax")])
    model.compile("adam", "sparse_categorical_crossentropy")
    x, y = np.ones([32, width], np.float32), np.zeros([32], np.int32)
    model.fit(x, y, batch_size=8, verbose=0)
    model.predict(x, verbose=0)


def resident() -> float:
    """kB, after everything was given back that can be."""
    tf.keras.backend.clear_session()
    gc.collect()
    time.sleep(1)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4.0


for i in range(first):
    run(i)
before = resident()
for i in range(first, first + count):
    run(i)
grown = (resident() - before) / count
activation = sys.modules.get("tf_stitch.plugin.activation")
session = None if activation is None else activation.current_session()
regions = 0 if session is None else len(session.registry)
print(json.dumps({"kB": round(grown, 2), "regions": regions}))
