"""Trains by calls of Session.run, as programs of TensorFlow 1 do."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
x = v1.placeholder(tf.float32, [64, 64])
weights = v1.get_variable("weights", initializer=np.ones([64, 64], np.float32))
loss = tf.reduce_mean(tf.square(tf.nn.softmax(tf.tanh(x * weights) * 2.0) - 0.5))
train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
data = np.random.default_rng(0).normal(size=[64, 64]).astype(np.float32)
with v1.Session() as session:
    session.run(v1.global_variables_initializer())
    for _ in range(int(sys.argv[1])):
        last, _ = session.run([loss, train], {x: data})
print(f"loss {last:.6f}")
