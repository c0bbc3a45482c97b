"""Keras trains under MirroredStrategy on two logical CPUs. Prints the losses of 50 steps, and how many variables differ
between the replicas by a bit. Argument: which model (gpt, or cnn with synchronized batch norm and clipping)."""

from __future__ import annotations

import json
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0],
                                           [tf.config.LogicalDeviceConfiguration()] * 2)
STEPS, BATCH = 50, 8
rng = np.random.default_rng(0)


def block(x: Any, width: int) -> Any:
    y = keras.layers.LayerNormalization()(x)
    x = x + keras.layers.MultiHeadAttention(2, width // 2)(y, y, use_causal_mask=True)
    y = keras.layers.Dense(2 * width, activation="gelu")(keras.layers.LayerNormalization()(x))
    return x + keras.layers.Dense(width)(y)


def gpt(words: int = 40, length: int = 12, width: int = 16) -> tuple[Any, Any, Any, Any]:
    """Next words of sentences that repeat themselves."""
    given = keras.Input((length,), dtype="int32")
    places = keras.ops.arange(length)
    x = keras.layers.Embedding(words, width)(given) + keras.layers.Embedding(length, width)(places)
    x = block(x, width)
    logits = keras.layers.Dense(words)(keras.layers.LayerNormalization()(x))
    text = np.tile(rng.integers(0, words, (STEPS * BATCH, 4)), (1, length))[:, :length + 1].astype(np.int32)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return keras.Model(given, logits), loss, text[:, :-1], text[:, 1:]


def cnn(classes: int = 5) -> tuple[Any, Any, Any, Any]:
    given = keras.Input((16, 16, 3))
    x = given
    for width in (8, 16):
        x = keras.layers.Conv2D(width, 3, strides=2, padding="same", use_bias=False)(x)
        x = keras.layers.Activation("relu")(keras.layers.BatchNormalization(synchronized=True)(x))
    logits = keras.layers.Dense(classes)(keras.layers.GlobalAveragePooling2D()(x))
    images = rng.normal(size=(STEPS * BATCH, 16, 16, 3)).astype(np.float32)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return keras.Model(given, logits), loss, images, images.mean((1, 2)).argmax(-1) % classes


class Losses(keras.callbacks.Callback):
    """Those of each step."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seen.append(float(logs["loss"]))


keras.utils.set_random_seed(0)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model, loss, x, y = {"gpt": gpt, "cnn": cnn}[sys.argv[1]]()
    optimizer = {"gpt": keras.optimizers.AdamW(1e-2),
                 "cnn": keras.optimizers.SGD(0.05, momentum=0.9, global_clipnorm=1.0)}[sys.argv[1]]
    model.compile(optimizer, loss, jit_compile=False)
losses = Losses()
model.fit(x, y, batch_size=BATCH, epochs=1, shuffle=False, verbose=0, callbacks=[losses])
copies = [[copy.numpy() for copy in strategy.experimental_local_results(v.value)]
          for v in (*model.variables, *model.optimizer.variables) if hasattr(v.value, "values")]
print(json.dumps({"replicas": strategy.num_replicas_in_sync, "losses": losses.seen, "copies": len(copies),
                  "differ": sum(a.tobytes() != b.tobytes() for a, b in copies)}))
