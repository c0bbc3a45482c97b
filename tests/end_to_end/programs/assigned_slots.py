"""Many variables that a step reads and assigns, and some that it only assigns. Prints their sums."""

from __future__ import annotations

import tensorflow as tf

SLOTS = 12
moving = [tf.Variable(tf.range(64.0) * i) for i in range(SLOTS)]
written = [tf.Variable(tf.zeros(64)) for _ in range(SLOTS)]
seen = tf.Variable(tf.ones(64))


@tf.function
def step(x: tf.Tensor) -> tf.Tensor:
    before = seen.read_value()
    for i in range(SLOTS):
        moving[i].assign(moving[i] * 0.9 + x * 0.1)
        written[i].assign(x * 2.0 + float(i))
    seen.assign(before * 0.5 + x)
    return before


returned = [float(tf.reduce_sum(step(tf.range(64.0) + n))) for n in range(4)]
print(*returned, *(float(tf.reduce_sum(v)) for v in (*moving, *written, seen)))
