"""Runs functions with while loops several times each; prints what they give as a JSON object, by name. With "split" as
the second argument loops are split as on a GPU."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import tensorflow as tf

from tests.graph.loops.loop_functions import cases, counted, floats, with_gradients

CALLS = int(sys.argv[1])
if "split" in sys.argv:
    from tf_stitch.graph.loops import native_loops

    native_loops.is_split = lambda device: True


def values(results: Any) -> list[Any]:
    return [np.asarray(r).tolist() for r in tf.nest.flatten(results)]


def in_a_session() -> list[Any]:
    """As TensorFlow 1 ran loops, with gradients."""
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        x = tf.compat.v1.placeholder(tf.float32, [None, 3])
        y = counted(4)(x)[1]
        fetches = [y, *tf.compat.v1.gradients(tf.reduce_sum(y * y), [x])]  # the graph is optimized once for these
        return [values(session.run(fetches, {x: floats(4, 3)})) for _ in range(CALLS)][-1]


def lengths() -> list[Any]:
    """One function for loops of all lengths, none among them."""
    function = tf.function(with_gradients(lambda x: tf.scan(lambda a, row: tf.tanh(a) + row, x, tf.zeros([3]))),
                           input_signature=[tf.TensorSpec([None, 3])], autograph=False)
    return [values(function(tf.constant(floats(n, 3)))) for n in (1, 7, 3, 7, 12)]


def out_of_range() -> str:
    """What a program is told that reads a row which is not there."""
    @tf.function
    def function(x: Any) -> Any:
        rows = tf.TensorArray(tf.float32, 4, element_shape=[3]).unstack(x)
        return tf.while_loop(lambda i, y: i < 6, lambda i, y: (i + 1, y + rows.read(i)), (0, tf.zeros([3])))[1]

    try:
        function(tf.constant(floats(4, 3)))
    except tf.errors.InvalidArgumentError as error:
        return "TensorListGetItem" if "TensorListGetItem" in error.message else error.message
    return "nothing"


if __name__ == "__main__":
    found: dict[str, Any] = {}
    for name, case in cases().items():
        function = tf.function(case.function, input_signature=case.specs(), autograph=False)
        function.__name__ = name
        found[name] = [values(function(*map(tf.constant, case.arrays))) for _ in range(CALLS)][-1]
    print(json.dumps(found | {"session": in_a_session(), "lengths": lengths(), "out_of_range": out_of_range()}))
