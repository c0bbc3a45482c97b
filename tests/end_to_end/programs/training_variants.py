"""Keras trains a small network with synchronized batch norm, with gradients that are added up over steps, or clipped by
their global norm. Prints the losses of 50 steps each."""

from __future__ import annotations

import json
from typing import Any

import keras
import numpy as np
import tensorflow as tf

STEPS, BATCH, WIDTH = 50, 16, 12
VARIANTS: dict[str, dict[str, Any]] = {"accumulated": {"gradient_accumulation_steps": 3},
                                       "clipped": {"global_clipnorm": 0.1}, "synchronized": {}}
found = {}
for name, options in VARIANTS.items():
    keras.utils.set_random_seed(0)
    norm = keras.layers.BatchNormalization(synchronized=name == "synchronized")
    model = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(WIDTH), norm, keras.layers.Activation("tanh"),
                              keras.layers.Dense(1)])  # fmt: skip
    optimizer = keras.optimizers.Adam(0.01, **options)
    optimizer.build(model.trainable_variables)

    def step(x: Any, y: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        optimizer.apply(tape.gradient(loss, [v.value for v in model.trainable_variables]))
        return loss

    rng = np.random.default_rng(0)
    batches = [(rng.normal(size=(BATCH, WIDTH)), rng.normal(size=(BATCH, 1))) for _ in range(4)]
    step.__name__ = name
    function = tf.function(step, jit_compile=False)
    found[name] = [float(function(*(tf.constant(v, tf.float32) for v in batches[i % 4]))) for i in range(STEPS)]
print(json.dumps(found))
