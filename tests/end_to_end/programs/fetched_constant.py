"""A session that updates a variable by fetching a constant behind the update. Prints JSON: the variable's first element
after each fetch."""

from __future__ import annotations

import json

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
ONES = np.ones((64, 64), np.float32)

with tf1.Graph().as_default(), tf1.Session() as session:
    x = tf1.placeholder(tf.float32, ONES.shape)
    total = tf1.get_variable("total", initializer=np.zeros(64, np.float32), use_resource=True)
    given = tf.reduce_mean(tf.nn.gelu(x) * 2.0 + tf.math.rsqrt(tf.square(x) + 1.0), 0)
    update = total.assign_add(given, read_value=False)
    with tf1.control_dependencies([update]):
        behind = [tf.constant(3.0), tf.identity(tf.constant(4.0)), tf.identity(given)]
    session.run(total.initializer)
    found = []
    for fetched in behind:
        session.run(fetched, {x: ONES})
        found.append(float(session.run(total)[0]))
print(json.dumps(found))
