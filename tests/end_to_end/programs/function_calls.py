"""Calls of a function with many variables: prints what share of their processor time other threads had, its result, and
whether a model that is saved mentions tf_stitch."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import tensorflow as tf

CALLS = 400


class Model(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = [tf.Variable(tf.fill([8], i / 40.0)) for i in range(40)]
        self.twice = tf.function(lambda x: self(x) * 2.0, input_signature=[tf.TensorSpec([8])])

    @tf.function(input_signature=[tf.TensorSpec([8])])
    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        for weight in self.weights:
            x = tf.tanh(x + weight)
        return x


model, x = Model(), tf.linspace(-1.0, 1.0, 8)
for _ in range(20):
    y = model(x)
whole, own = time.process_time(), time.thread_time()
for _ in range(CALLS):
    y = model(x)
share = 1 - (time.thread_time() - own) / (time.process_time() - whole)

with tempfile.TemporaryDirectory() as folder:
    model.twice(x)
    tf.saved_model.save(model, folder)
    mentioned = b"TF_STITCH" in Path(folder, "saved_model.pb").read_bytes()
    loaded = tf.saved_model.load(folder)
    restored = loaded.twice(x)
print(json.dumps({"share": share, "result": y.numpy().tolist(), "restored": restored.numpy().tolist(),
                  "mentioned": mentioned}))
