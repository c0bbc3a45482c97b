"""A loop whose slice leaves its tensor in an iteration. Prints how TensorFlow says so, and what a call that does not
leave it gives afterwards."""

from __future__ import annotations

import json
import re

import tensorflow as tf


@tf.function(autograph=False)
def run(x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
    def body(i: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return i + 1, tf.tanh(y) + tf.reduce_sum(tf.slice(x, [0, i], [2, 2]), 1)

    return tf.while_loop(lambda i, y: i < n, body, (0, tf.zeros([2])))[1]


x = tf.ones([2, 5])
said = ""
for n in (4, 5):
    try:
        result = run(x, tf.constant(n))
    except tf.errors.InvalidArgumentError as error:
        said = re.findall(r"Expected [^\n[]*\[[^]]*\] in \[[^]]*\], but got -?\d+", str(error))[0]
print(json.dumps([said, run(x, tf.constant(3)).numpy().tolist()]))
