"""Keras' `fit` and `evaluate`, and how often a step's Optional is asked by an op whether it has losses. Prints JSON."""

from __future__ import annotations

import json
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.ops import gen_optional_ops

asked = 0
op = gen_optional_ops.optional_has_value


def has_value(*arguments: Any, **named: Any) -> Any:
    global asked
    asked += tf.executing_eagerly()
    return op(*arguments, **named)


gen_optional_ops.optional_has_value = has_value
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.layers.Dense(64, activation="gelu"), keras.layers.LayerNormalization(),
                          keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=["mae"], jit_compile=False)
x = np.random.default_rng(2).normal(size=(256, 32)).astype(np.float32)
data = tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(32, drop_remainder=True)
history = model.fit(data, epochs=6, verbose=0).history
evaluated = model.evaluate(data, verbose=0, return_dict=True)
print(json.dumps({"losses": history["loss"], "maes": history["mae"], "evaluated": evaluated, "asked": asked}))
