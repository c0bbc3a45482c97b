"""Train steps of three blocks, which are computed again for their gradients: "remat" by Keras, "recompute_grad" by
TensorFlow, or not at all ("plain"). Prints JSON: the bits of the losses."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

WIDTH, ROWS = 32, 256
AGAIN = {"plain": lambda block: block, "recompute_grad": tf.recompute_grad, "remat": keras.remat}[sys.argv[1]]
rng = np.random.default_rng(0)
weights = [[tf.Variable(0.1 * rng.standard_normal(shape), dtype=tf.float32)
            for shape in ((WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH))] for _ in range(3)]


def block_of(wide: tf.Variable, narrow: tf.Variable) -> Callable[[tf.Tensor], tf.Tensor]:
    return AGAIN(lambda x: x + tf.matmul(tf.nn.gelu(tf.matmul(tf.nn.tanh(x), wide)), narrow))


blocks = [block_of(*pair) for pair in weights]


@tf.function(autograph=False)
def step(rows: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        value = rows
        for block in blocks:
            value = block(value)
        loss = tf.reduce_mean(tf.square(value))
    variables = [v for pair in weights for v in pair]
    for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
        variable.assign_sub(0.01 * gradient)
    return loss


data = tf.constant(rng.standard_normal((ROWS, WIDTH)), tf.float32)
print(json.dumps([float(step(data)).hex() for _ in range(3)]))
