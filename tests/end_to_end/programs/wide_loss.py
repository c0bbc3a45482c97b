"""Train steps of a classifier of many classes, whose logits are most of what a step has in memory. Prints JSON: for
each kind of loss, losses and a weight in the end.

    wide_loss.py KIND...
"""

from __future__ import annotations

import json
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

ROWS, WIDTH, CLASSES, IGNORED = 128, 32, 1024, 3
losses = keras.losses
KINDS = {
    "sparse": losses.SparseCategoricalCrossentropy(from_logits=True),
    "ignored": losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=IGNORED),
    "masked": losses.SparseCategoricalCrossentropy(from_logits=True),
    "smoothed": losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1),
}
rng = np.random.default_rng(0)
rows = tf.constant(rng.standard_normal((ROWS, WIDTH)), tf.float32)
classes = rng.integers(0, CLASSES, ROWS)
classes[::4] = IGNORED
weights = tf.constant(rng.integers(0, 2, ROWS), tf.float32)


def trained(kind: str) -> dict[str, Any]:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(WIDTH, activation="gelu"),
                              keras.layers.Dense(CLASSES)])
    optimizer = keras.optimizers.SGD(1.0)
    optimizer.build(model.trainable_variables)
    loss_of, given = KINDS[kind], weights if kind == "masked" else None

    @tf.function(autograph=False)
    def step(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(x, training=True), sample_weight=given)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables,
                                      strict=True))
        return loss

    labels = tf.constant(np.eye(CLASSES, dtype=np.float32)[classes] if kind == "smoothed" else classes)
    found = [float(step(rows, labels)) for _ in range(3)]
    return {"losses": found, "weights": np.asarray(model.trainable_variables[2])[:2, :8].tolist()}


print(json.dumps({kind: trained(kind) for kind in sys.argv[1:]}))
