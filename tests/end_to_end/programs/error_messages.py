"""Prints the messages of errors that the user's own values make, in stitched functions of several kinds."""

from __future__ import annotations

import json

import tensorflow as tf

MATRIX = tf.TensorSpec([None, None])


def added(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.nn.softmax(tf.exp(x) + y) * 2.0  # shapes that cannot be broadcast


@tf.function(input_signature=[MATRIX, MATRIX])
def alone(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(added(x, y))


@tf.function
def inner(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return added(x, y) + 1.0


@tf.function(input_signature=[MATRIX, MATRIX])
def nested(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(inner(x * 2.0, y))


@tf.function(input_signature=[MATRIX, MATRIX])
def beside_others(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """A region among ops that stay TensorFlow's: another executor of TensorFlow runs it."""
    return tf.linalg.det(tf.matmul(added(x, y), y, transpose_b=True))


@tf.function(input_signature=[MATRIX, tf.TensorSpec([None], tf.int32)])
def gathered(x: tf.Tensor, i: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.exp(tf.gather(x, i)) * 2.0 + 1.0)


TOTAL = tf.Variable(tf.zeros([3, 4]))


@tf.function(input_signature=[MATRIX, MATRIX])
def updated(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    TOTAL.assign_add(tf.tanh(x) * 0.5)
    return tf.reduce_sum(added(x, y) * TOTAL)


TABLE = tf.Variable(tf.ones([6, 4]))


@tf.function(input_signature=[MATRIX, tf.TensorSpec([None], tf.int32)])
def scattered(x: tf.Tensor, i: tf.Tensor) -> tf.Tensor:
    """The kernel overwrites the variable."""
    TABLE.scatter_sub(tf.IndexedSlices(tf.tanh(x) * 0.5, i))
    return tf.reduce_sum(tf.exp(x) * 2.0)


def message(function: object, *arguments: tf.Tensor) -> str:
    try:
        function(*arguments)
    except tf.errors.InvalidArgumentError as error:
        return str(error)
    return "no error"


x, good, bad = tf.ones([3, 4]), tf.ones([3, 4]), tf.ones([3, 5])
found = {}
for name in ("alone", "nested", "beside_others", "updated"):
    function = globals()[name]
    if name != "beside_others":
        function(x, good)
    else:
        function(x, tf.ones([3, 4]))
    found[name] = message(function, x, bad)
gathered(x, tf.constant([1, 2]))
found["gathered"] = message(gathered, x, tf.constant([1, 22]))
scattered(x, tf.constant([1, 2, 1]))
found["scattered"] = message(scattered, x, tf.constant([1, 2, -7]))
print(json.dumps(found))
