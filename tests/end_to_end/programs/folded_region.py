"""Regions that TensorFlow runs once, to fold them into constants, and one that runs later: prints what that gives."""

import json

import numpy as np
import tensorflow as tf


@tf.function(input_signature=[tf.TensorSpec([17, 1, 2], tf.int64), tf.TensorSpec([400, 400], tf.float32)])
def program(x: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
    noise = tf.random.stateless_uniform(tf.shape(x), [0, 7])
    rows = tf.while_loop(lambda i, _: i < 2, lambda i, t: [i + 1, t.write(i, noise + tf.tanh(tf.cast(i, tf.float32)))],
                         [tf.constant(0), tf.TensorArray(tf.float32, 2)])[1].stack()
    sums = tf.scan(lambda s, row: s + tf.tanh(tf.reduce_mean(tf.math.multiply_no_nan(row, row))), rows, noise)
    folded = tf.math.acosh(tf.abs(tf.round(tf.tanh(sums))) + 1.5)
    # It takes long enough for what is freed with the folded regions to be missed.
    inverse = tf.linalg.inv(tf.linalg.inv(matrix))
    return tf.exp(tf.sin(folded * tf.reduce_sum(inverse)) * 0.5 + 1.0)


print(json.dumps(program(tf.ones([17, 1, 2], tf.int64), np.eye(400, dtype=np.float32)).numpy().ravel().tolist()))
