"""Small models of the kinds that can be converted, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf


def keras_export(folder: Path) -> Path:
    """Keras 3, by `model.export`: a dense network with a LayerNormalization and a dropout."""
    keras.utils.set_random_seed(0)
    i = keras.Input((16,), name="x")
    h = keras.ops.tanh(keras.layers.Dense(32)(i)) * 1.5 + 0.25
    h = keras.layers.Dropout(0.2, seed=1)(keras.layers.LayerNormalization()(h))
    keras.Model(i, keras.layers.Dense(5, activation="softmax")(h)).export(str(folder), verbose=False)
    return folder


def swish(folder: Path) -> Path:
    """Keras 3 with an activation that has a gradient of its own, which TensorFlow saves."""
    keras.utils.set_random_seed(0)
    i = keras.Input((16,), name="x")
    h = keras.layers.LayerNormalization()(keras.layers.Dense(32, activation="swish")(i))
    keras.Model(i, keras.layers.Dense(5, activation="swish")(h)).export(str(folder), verbose=False)
    return folder


class Module(tf.Module):
    """Several signatures, a table with an asset, strings, a loop, a branch, a variable that is written, an inner
    function."""

    def __init__(self, vocabulary: Path) -> None:
        super().__init__()
        self.weight = tf.Variable(np.random.default_rng(1).standard_normal((16, 16)).astype(np.float32))
        self.calls = tf.Variable(0)
        words = tf.lookup.TextFileInitializer(tf.saved_model.Asset(str(vocabulary)), tf.string,
                                              tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64,
                                              tf.lookup.TextFileIndex.LINE_NUMBER)
        self.table = tf.lookup.StaticHashTable(words, -1)

    @tf.function
    def inner(self, v: Any) -> Any:
        return tf.tanh(v) * 2.0 + 1.0

    @tf.function(input_signature=[tf.TensorSpec([None, 16], name="x"), tf.TensorSpec([None], tf.string, name="s")])
    def serve(self, x: Any, s: Any) -> dict[str, Any]:
        y = self.inner(tf.matmul(x, self.weight))
        self.calls.assign_add(1)
        y = tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, tf.tanh(v) * 0.5 + 0.1), (0, y))[1]
        y = tf.cond(tf.reduce_sum(y) > 0.0, lambda: tf.sigmoid(y) * 2.0 + y, lambda: tf.tanh(y) - 1.0)
        return {"p": tf.nn.softmax(y * 3.0), "ids": self.table.lookup(s)}

    @tf.function(input_signature=[tf.TensorSpec([None, 16], name="x")])
    def other(self, x: Any) -> dict[str, Any]:
        return {"y": tf.math.sigmoid(self.inner(x)) + tf.reduce_mean(x)}


def module(folder: Path) -> Path:
    """tf.saved_model.save of a tf.Module."""
    vocabulary = folder.with_name("vocabulary.txt")
    vocabulary.write_text("a\nb\nc\n")
    made = Module(vocabulary)
    tf.saved_model.save(made, str(folder), signatures={"serving_default": made.serve, "other": made.other})
    return folder


def simple_save(folder: Path) -> Path:
    """TensorFlow 1's simple_save, with resource variables."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [None, 16], name="x")
        w = tf.compat.v1.get_variable("w", [16, 8], use_resource=True,
                                      initializer=tf.compat.v1.random_normal_initializer(seed=1))
        y = tf.nn.relu(tf.matmul(x, w) + 1.0)
        z = tf.nn.softmax(y * 2.0 - tf.reduce_mean(y, 1, keepdims=True), name="z")
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.saved_model.simple_save(session, str(folder), {"x": x}, {"z": z})
    return folder


def old_graph(folder: Path) -> Path:
    """simple_save of a graph with reference variables, and TensorFlow 1's own loops and branches."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        v1.disable_control_flow_v2()
        try:
            x = v1.placeholder(tf.float32, [None, 16], name="x")
            w = v1.get_variable("w", [16, 16], use_resource=False,
                                initializer=v1.random_normal_initializer(stddev=0.1, seed=1))
            y = tf.nn.relu(tf.matmul(x, w) + 1.0)
            y = v1.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.tanh(tf.matmul(v, w)) * 2.0 + 1.0), (0, y))[1]
            y = v1.cond(tf.reduce_sum(y) > 0.0, lambda: tf.sigmoid(y) * 2.0 + 1.0, lambda: tf.tanh(y) - 1.0)
            z = tf.nn.softmax(y * 2.0 - tf.reduce_mean(y, 1, keepdims=True), name="z")
        finally:
            v1.enable_control_flow_v2()
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(folder), {"x": x}, {"z": z})
    return folder


def int8(folder: Path) -> Path:
    """Keras 3 with weights quantized to int8."""
    keras.utils.set_random_seed(0)
    i = keras.Input((16,), name="x")
    h = keras.layers.LayerNormalization()(keras.layers.Dense(32, activation="gelu")(i))
    model = keras.Model(i, keras.layers.Dense(5)(h))
    model.quantize("int8", filters="dense")
    model.export(str(folder), verbose=False)
    return folder


def half(folder: Path) -> Path:
    """Keras 3 in mixed precision of float16."""
    keras.utils.set_random_seed(0)
    policy = keras.DTypePolicy("mixed_float16")
    i = keras.Input((16,), name="x")
    h = keras.layers.Dense(32, activation="gelu", dtype=policy)(i)
    h = keras.layers.LayerNormalization(dtype=policy)(h)
    keras.Model(i, keras.layers.Dense(5, dtype=policy)(h)).export(str(folder), verbose=False)
    return folder


def tf_keras_save(folder: Path) -> Path:
    """tf-keras, by `model.save` as a SavedModel."""
    import tf_keras

    tf_keras.utils.set_random_seed(0)
    layers = [tf_keras.layers.Dense(24, activation="gelu", input_shape=(16,)), tf_keras.layers.LayerNormalization(),
              tf_keras.layers.Dense(3, activation="softmax")]
    tf_keras.Sequential(layers).save(str(folder), save_format="tf")
    return folder


MAKERS = {"keras": keras_export, "module": module, "simple_save": simple_save, "old_graph": old_graph, "int8": int8,
          "half": half, "swish": swish, "tf_keras": tf_keras_save}
