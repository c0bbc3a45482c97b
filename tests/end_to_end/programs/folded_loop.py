"""A loop of constants, which becomes one op, in a loop that stays: TensorFlow's constant folding runs the op once and
frees its kernel, before the outer loop's regions have any. Prints the result."""

from __future__ import annotations

import tensorflow as tf


@tf.function(autograph=False)
def program(x: tf.Tensor) -> tf.Tensor:
    def body(i: tf.Tensor, h: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        noise = tf.random.stateless_uniform([4], [3, 7])
        _, logs = tf.while_loop(lambda j, _: j < 0, lambda j, a: (j + 1, tf.reduce_logsumexp(a, [])), [0, noise])
        return i + 1, h + tf.tanh(tf.reduce_mean(logs))

    return tf.while_loop(lambda i, _: i < 2, body, [0, x])[1]


print(*program(tf.ones([8])).numpy())
