"""Variables that a step overwrites before it reads them, as Adafactor does; one has no value before. Prints results."""

from __future__ import annotations

import json

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import UninitializedVariable

X = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
results: dict[str, object] = {}


def adafactor() -> None:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(24, "tanh"), keras.layers.Dense(4)])
    optimizer = keras.optimizers.Adafactor(1e-2)
    optimizer.build(model.trainable_variables)

    @tf.function
    def adafactor_graph(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - x[:, :4]))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    results["losses"] = [float(adafactor_graph(tf.constant(X))) for _ in range(8)]
    results["state"] = [float(np.abs(v.numpy()).sum()) for v in optimizer.variables]


def first_value() -> None:
    """A function that gives a variable its first value, and reads it. Then it overwrites it."""
    new = UninitializedVariable(shape=[16], dtype=tf.float32)

    @tf.function
    def first_graph(x: tf.Tensor) -> tf.Tensor:
        new.assign(tf.tanh(x) * 2.0)
        return tf.exp(-new.read_value()) + x

    results["first"] = [first_graph(tf.constant(x)).numpy().tolist() for x in X]
    results["last"] = new.numpy().tolist()


for part in (adafactor, first_value):
    part()
print(json.dumps(results))
