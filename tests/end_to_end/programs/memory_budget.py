"""Train steps of a Keras model with dropout and normalization, of one region with TF_STITCH_SCOPE=region. Prints JSON:
the bits of the losses, and of the weights in the end.

    memory_budget.py [rows of a batch]
"""

from __future__ import annotations

import hashlib
import json
import sys

import keras
import numpy as np
import tensorflow as tf

WIDTH, ROWS = 64, int(sys.argv[1]) if len(sys.argv) > 1 else 256
keras.utils.set_random_seed(1)
x = keras.Input((WIDTH,))
h = x
for _ in range(2):
    before = h
    h = keras.layers.LayerNormalization()(h)
    h = keras.layers.Dense(4 * WIDTH, activation="gelu")(h)
    h = keras.layers.Dropout(0.1)(h)
    h = keras.layers.Add()([before, keras.layers.Dense(WIDTH)(h)])
model = keras.Model(x, keras.layers.Dense(10)(h))
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function(autograph=False)
def step(rows: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(rows, training=True))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables,
                                  strict=True))
    return loss


rng = np.random.default_rng(0)
data = tf.constant(rng.standard_normal((ROWS, WIDTH)), tf.float32), tf.constant(rng.integers(0, 10, ROWS))
losses = [float(step(*data)).hex() for _ in range(4)]
weights = hashlib.sha256(b"".join(np.asarray(v).tobytes() for v in model.variables)).hexdigest()
print(json.dumps({"losses": losses, "weights": weights}))
