"""Trains two tables by a few rows, one of 10 thousand rows and one of 10 million: prints by optimizer the median
milliseconds of a step of each. Steps of both take turns, so that a busy machine slows both."""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

SMALL, LARGE, WIDTH, BATCH = 10**4, 10**7, 2, 256
WARM_UP, STEPS = 5, 25
rng = np.random.default_rng(0)
wanted = tf.constant(rng.normal(size=(BATCH, 1)).astype(np.float32))


def by_hand(table: tf.Variable) -> Callable[[Any], Any]:
    """SGD, by the gradient's rows."""
    def update(gradient: Any) -> None:
        table.scatter_sub(tf.IndexedSlices(0.1 * gradient.values, gradient.indices))

    return update


def by(name: str) -> Callable[[tf.Variable], Callable[[Any], Any]]:
    def made(table: tf.Variable) -> Callable[[Any], Any]:
        if name == "SGD":  # the other one of tf-keras goes through the whole table
            optimizer = tf_keras.optimizers.legacy.SGD(0.1)
        else:
            optimizer = getattr(tf_keras.optimizers, name)(0.1, jit_compile=False)
            optimizer.build([table])
        return lambda gradient: optimizer.apply_gradients([(gradient, table)])

    return made


OPTIMIZERS = {"by hand": by_hand, "SGD": by("SGD"), "Adagrad": by("Adagrad")}


def step_of(rows: int, make: Callable[[tf.Variable], Callable[[Any], Any]]) -> Callable[[Any], Any]:
    table = tf.Variable(tf.ones([rows, WIDTH]))
    update = make(table)

    @tf.function(input_signature=[tf.TensorSpec([BATCH], tf.int32)])
    def step(at: Any) -> Any:
        with tf.GradientTape() as tape:
            found = tf.nn.embedding_lookup(table, at)
            loss = tf.reduce_mean((tf.reduce_sum(tf.tanh(found), -1, keepdims=True) - wanted) ** 2)
        update(tape.gradient(loss, table))
        return loss

    return step


results = {}
for name, make in OPTIMIZERS.items():
    steps = {rows: step_of(rows, make) for rows in (SMALL, LARGE)}
    times: dict[int, list[float]] = {rows: [] for rows in steps}
    for i in range(WARM_UP + STEPS):
        for rows, step in steps.items():
            at = tf.constant(rng.integers(0, rows, BATCH).astype(np.int32))
            begin = time.perf_counter()
            step(at).numpy()
            if i >= WARM_UP:
                times[rows].append(1e3 * (time.perf_counter() - begin))
    results[name] = [statistics.median(times[rows]) for rows in (SMALL, LARGE)]
    del steps
    gc.collect()
print(json.dumps(results))
