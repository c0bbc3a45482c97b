"""Sizes that are broadcast to each other are equal in one call and differ in the next; one call updates a variable."""

from __future__ import annotations

import json

import tensorflow as tf

UNKNOWN = tf.TensorSpec([None, None], tf.float32)
total = tf.Variable(0.0)


@tf.function(autograph=False, input_signature=[UNKNOWN, UNKNOWN])
def mixed(a: tf.Tensor, b: tf.Tensor) -> tuple[tf.Tensor, ...]:
    y = tf.math.nextafter(b, tf.reduce_min(tf.nn.softmax(a)))  # no region holds it
    return tf.tanh(y + a) * 2 + tf.exp(a), tf.reduce_min(y), tf.minimum(b, a) * 3


@tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.float32)] * 2)
def counted(a: tf.Tensor, b: tf.Tensor) -> tuple[tf.Tensor, ...]:
    total.assign_sub(tf.reduce_min(b * 2 + 1))
    return tf.tanh(a) * 2 + tf.exp(b), total * 2


def row(*shape: int) -> tf.Tensor:
    return tf.sin(tf.reshape(tf.range(float(tf.reduce_prod(shape))), shape))


results = [mixed(row(4, 3), row(4, 3)), mixed(row(4, 3), row(4, 1)), mixed(row(4, 1), row(4, 3))]
results += [counted(row(3), row(3)), counted(row(3), row(1)), counted(row(1), row(3))]
print(json.dumps([[float(tf.reduce_sum(x)), *x.shape] for outputs in results for x in outputs] + [[float(total)]]))
