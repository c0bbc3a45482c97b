"""Trains a table by its rows: prints losses, the table, and what is raised, by optimizer. Arguments: the library of the
optimizers (keras, tf_keras, legacy, tf1), the type of the row numbers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

LIBRARY, INDEX = sys.argv[1], tf.as_dtype(sys.argv[2])
ROWS, WIDTH, EACH, BATCH, STEPS = 40, 4, 3, 8, 50
RATES = {"SGD": 0.1, "Adagrad": 0.1, "Adam": 0.01, "Ftrl": 0.1}
rng = np.random.default_rng(0)
TABLE = rng.normal(size=(ROWS, WIDTH)).astype(np.float32)
WEIGHTS = rng.normal(size=(EACH * WIDTH, 1)).astype(np.float32)
SPECS = [tf.TensorSpec([None, EACH], INDEX), tf.TensorSpec([None, 1])]

Step = Callable[[Any, Any], Any]


def loss_of(found: Any, weights: Any, wanted: Any) -> Any:
    return tf.reduce_mean((tf.tanh(tf.reshape(found, [-1, EACH * WIDTH])) @ weights - wanted) ** 2)


def of_keras(name: str) -> tuple[Step, Callable[[], Any]]:
    import keras

    optimizer = getattr(keras.optimizers, name)(RATES[name])
    layer = keras.layers.Embedding(ROWS, WIDTH)
    layer.build()
    layer.embeddings.assign(TABLE)
    weights = keras.Variable(WEIGHTS)
    optimizer.build([layer.embeddings, weights])

    @tf.function(input_signature=SPECS)
    def step(rows: Any, wanted: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(layer(rows), weights.value, wanted)
        values = [layer.embeddings, weights]
        optimizer.apply(tape.gradient(loss, [v.value for v in values]), values)
        return loss

    return step, layer.embeddings.numpy


def of_tf_keras(name: str) -> tuple[Step, Callable[[], Any]]:
    import tf_keras

    if LIBRARY == "legacy":
        optimizer = getattr(tf_keras.optimizers.legacy, name)(RATES[name])
    else:
        optimizer = getattr(tf_keras.optimizers, name)(RATES[name], jit_compile=False)
    table, weights = tf.Variable(TABLE), tf.Variable(WEIGHTS)
    if LIBRARY == "tf_keras":
        optimizer.build([table, weights])

    @tf.function(input_signature=SPECS)
    def step(rows: Any, wanted: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(tf.nn.embedding_lookup(table, rows), weights, wanted)
        values = [table, weights]
        optimizer.apply_gradients(zip(tape.gradient(loss, values), values, strict=True))
        return loss

    return step, table.numpy


def of_tf1(name: str) -> tuple[Step, Callable[[], Any]]:
    v1 = tf.compat.v1
    optimizer = getattr(v1.train, {"SGD": "GradientDescent"}.get(name, name) + "Optimizer")
    with tf.Graph().as_default():
        rows, wanted = (v1.placeholder(spec.dtype, spec.shape) for spec in SPECS)
        table = v1.get_variable("table", initializer=TABLE, use_resource=True)
        weights = v1.get_variable("weights", initializer=WEIGHTS, use_resource=True)
        loss = loss_of(tf.nn.embedding_lookup(table, rows), weights, wanted)
        train = optimizer(RATES[name]).minimize(loss)
        session = v1.Session()
        session.run(v1.global_variables_initializer())
    return lambda i, y: session.run([loss, train], {rows: i.numpy(), wanted: y.numpy()})[0], lambda: session.run(table)


MAKE = {"keras": of_keras, "tf_keras": of_tf_keras, "legacy": of_tf_keras, "tf1": of_tf1}[LIBRARY]
BATCHES = [((rng.zipf(1.2, (BATCH, EACH)) - 1) % ROWS, rng.normal(size=(BATCH, 1))) for _ in range(4)]


def raised(step: Step, bad: int) -> str:
    rows = BATCHES[0][0].copy()
    rows[1, 2] = bad
    try:
        step(tf.constant(rows, INDEX), tf.zeros([BATCH, 1]))
    except tf.errors.InvalidArgumentError as error:
        return next(line.strip() for line in str(error).splitlines() if "is not in" in line)
    return "nothing"


found = {}
for name in RATES:
    step, table = MAKE(name)
    losses = [float(step(tf.constant(rows, INDEX), tf.constant(y, tf.float32)))
              for rows, y in (BATCHES[k % len(BATCHES)] for k in range(STEPS))]
    trained = table().tolist()
    errors = [raised(step, ROWS), raised(step, -ROWS - 1)]
    empty = str(float(step(tf.zeros([0, EACH], INDEX), tf.zeros([0, 1]))))
    found[name] = {"losses": losses, "table": trained, "errors": errors, "empty": empty}
print(json.dumps(found))
