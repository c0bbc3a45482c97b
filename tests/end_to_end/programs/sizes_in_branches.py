"""Sizes that a branch or a loop needs to be equal, and that differ when it does not run."""

import json

import numpy as np
import tensorflow as tf

ANY = tf.TensorSpec([None, None])


@tf.function(autograph=False, input_signature=[ANY, ANY, tf.TensorSpec([], tf.int32)])
def branch(x, w, trips):
    y = tf.cond(trips > 0, lambda: tf.reduce_sum(tf.matmul(x, w)), lambda: tf.reduce_sum(x))
    return y, tf.tanh(x) + tf.exp(x) * tf.cast(tf.shape(w)[0], tf.float32)


@tf.function(autograph=False, input_signature=[ANY, ANY, tf.TensorSpec([], tf.int32)])
def loop(x, w, trips):
    y = tf.while_loop(lambda i, _: i < trips, lambda i, s: [i + 1, s + tf.reduce_sum(tf.matmul(x, w))], [0, 0.0])[1]
    return y, tf.tanh(x) + tf.exp(x) * tf.cast(tf.shape(w)[0], tf.float32)


found = {}
for function in (branch, loop):
    for columns, rows, trips in ((4, 4, 2), (3, 4, 0), (5, 8, 0)):
        r = np.random.RandomState(0)
        results = function(r.rand(2, columns).astype("f4"), r.rand(rows, 6).astype("f4"), trips)
        found[f"{function.name} {columns} {rows} {trips}"] = [x.numpy().tolist() for x in results]
print(json.dumps(found))
