"""Trains a model with tf-keras (TF_USE_LEGACY_KERAS=1). Writes results to the .npz file named."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

assert "tf_keras" in tf.keras.layers.Dense.__module__, tf.keras.layers.Dense.__module__
X = np.random.default_rng(0).standard_normal((18, 8)).astype(np.float32)
tf.keras.utils.set_random_seed(0)
model = tf.keras.Sequential([
    tf.keras.layers.Dense(16, activation="tanh"), tf.keras.layers.LayerNormalization(), tf.keras.layers.Dropout(0.2),
    tf.keras.layers.Dense(3)])  # fmt: skip
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
labels = np.arange(18) % 3
history = model.fit(X, labels, batch_size=4, epochs=3, shuffle=False, verbose=0).history
evaluated, predicted = model.evaluate(X, labels, verbose=0), model.predict(X, verbose=0)
np.savez(sys.argv[1], loss=history["loss"], evaluated=evaluated, predicted=predicted)
