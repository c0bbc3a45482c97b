"""Keras trains under `keras.distribution.DataParallel` on two logical CPUs; prints how many devices Keras distributes
over, the devices that hold variables, and the losses of all steps."""

from __future__ import annotations

import json
from typing import Any

import keras
import numpy as np
import tensorflow as tf

tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0],
                                           [tf.config.LogicalDeviceConfiguration()] * 2)
STEPS, BATCH = 20, 8


class Losses(keras.callbacks.Callback):
    """Those of each step."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seen.append(float(logs["loss"]))


keras.utils.set_random_seed(0)
strategy = keras.distribution.DataParallel(devices=["cpu:0", "cpu:1"])
keras.distribution.set_distribution(strategy)
given = keras.Input((12,))
hidden = keras.layers.Dense(16, activation="gelu")(keras.layers.LayerNormalization()(given))
model = keras.Model(given, keras.layers.Dense(1)(keras.layers.LayerNormalization()(hidden)))
model.compile(keras.optimizers.AdamW(1e-2), "mse", jit_compile=False)
x = np.random.default_rng(0).normal(size=(STEPS * BATCH, 12)).astype(np.float32)
losses = Losses()
model.fit(x, np.sin(x.sum(1, keepdims=True)), batch_size=BATCH, epochs=1, shuffle=False, verbose=0, callbacks=[losses])
held_by = sorted({variable.value.device for variable in (*model.variables, *model.optimizer.variables)})
print(json.dumps({"replicas": strategy.num_model_replicas, "held_by": held_by, "losses": losses.seen}))
