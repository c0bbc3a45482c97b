"""Saves a model that counts its calls, loads it, and calls its signature. Prints what that gives."""

from __future__ import annotations

import json
import sys
import tempfile

import numpy as np
import tensorflow as tf


class Model(tf.Module):
    def __init__(self) -> None:
        self.weight = tf.Variable(np.linspace(-1, 1, 48 * 8).reshape(48, 8).astype(np.float32))
        self.calls = tf.Variable(0)

    @tf.function(input_signature=[tf.TensorSpec([16, 48], tf.float32)])
    def serve(self, x: tf.Tensor) -> tf.Tensor:
        self.calls.assign_add(1)
        return tf.nn.softmax(tf.tanh(tf.matmul(x, self.weight)) * 2.0 + 1.0)


with tempfile.TemporaryDirectory() as folder:
    model = Model()
    tf.saved_model.save(model, folder)
    signature = tf.saved_model.load(folder).signatures["serving_default"]
x = tf.constant(np.random.default_rng(3).standard_normal((16, 48)).astype(np.float32))
results = [signature(x)["output_0"].numpy().sum(0) for _ in range(3)]
if "tf_stitch" in sys.modules:
    import tf_stitch

    assert tf_stitch.wait(200)
results += [signature(x)["output_0"].numpy().sum(0) for _ in range(3)]
print(json.dumps([float(value) for result in results for value in result]))
