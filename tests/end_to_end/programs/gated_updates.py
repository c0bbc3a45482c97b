"""Variables updated in loops and branches by what the iteration or branch does not hand in. Prints them as JSON."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import tensorflow as tf

X = tf.constant([[1.5, -0.25], [0.5, 2.0]])


def with_loop(trips: int) -> Callable[[tf.Variable, Any], Any]:
    def function(variable: tf.Variable, x: Any) -> Any:
        def body(i: Any, y: Any) -> Any:
            variable.assign(tf.tanh(variable) * 0.5)
            return i + 1, y * 2.0 + 1.0

        return tf.while_loop(lambda i, y: i < trips, body, (0, x), maximum_iterations=5)

    return function


def with_branch(variable: tf.Variable, x: Any) -> Any:
    def update() -> Any:
        variable.assign(tf.tanh(variable) * 0.5)
        return x + 1.0

    return tf.cond(tf.reduce_sum(x) > 1000.0, update, lambda: x - 1.0)


def with_shape(variable: tf.Variable, x: Any) -> Any:
    """The branch asks for no more than the shape of what comes in."""
    def update() -> Any:
        variable.assign(variable * tf.cast(tf.shape(x)[0], tf.float32))
        return x + 1.0

    return tf.cond(tf.reduce_sum(x) > 1000.0, update, lambda: x - 1.0)


def vectorized(variable: tf.Variable, x: Any) -> Any:
    """The loop reads what was made of the variable before an update that it waits for."""
    before = variable + 1.5
    twice = before * 2.0
    tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=tf.constant(0.01), delta=x)

    def rows(p: Any) -> Any:
        total = tf.add_n([twice, twice, p])

        def row(r: Any) -> Any:
            small = tf.cast(total, tf.float16)
            variable.assign(tf.tanh(variable))
            return r + tf.tanh(tf.reduce_mean(tf.cast(small, tf.float32)))

        result = tf.vectorized_map(row, before)
        tf.pad(variable, [[0, 0], [2, 0]])  # nobody needs it, but the loop waits for what it reads
        return result

    tf.while_loop(lambda i, _: i < 1, lambda i, t: [i + 1, t.write(i, rows(twice))],
                  [tf.constant(0), tf.TensorArray(tf.float32, 1)])
    return x + 1.0


CASES = {"no_trip": with_loop(0), "one_trip": with_loop(1), "three_trips": with_loop(3), "branch": with_branch,
         "shape": with_shape, "vectorized": vectorized}  # fmt: skip
results = {}
for name, case in CASES.items():
    value = tf.Variable(X)
    tf.function(functools.partial(case, value, X), autograph=False)()
    results[name] = value.numpy().tolist()
print(json.dumps(results))
