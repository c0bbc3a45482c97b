"""Requests of many lengths through normalisation, attention's softmax and gelu: prints the largest difference from the
same arithmetic done eagerly, op by op. Arguments: requests, lengths, seed, seconds to wait after each request."""

import sys
import time

import numpy as np
import tensorflow as tf

REQUESTS, LENGTHS, SEED = map(int, sys.argv[1:4])
gain, shift = tf.Variable(tf.ones([64]) * 1.5), tf.Variable(tf.ones([64]) * 0.25)


@tf.function(input_signature=[tf.TensorSpec([None, None, 64])], autograph=False)
def block(x):
    mean = tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(x - mean), -1, keepdims=True)
    normal = (x - mean) * tf.math.rsqrt(variance + 1e-5) * gain + shift
    weights = tf.nn.softmax(tf.matmul(normal, normal, transpose_b=True) * 0.125)
    y = tf.matmul(weights, normal)
    y = 0.5 * y * (1.0 + tf.math.erf(y * 0.7071))
    heads = tf.transpose(tf.reshape(y, [tf.shape(x)[0], tf.shape(x)[1], 4, 16]), [0, 2, 1, 3])
    return y + x, tf.reduce_sum(tf.exp(-heads * heads), [1, 3]), tf.reduce_max(y, 1)


rng = np.random.default_rng(SEED)
lengths = [17, 1, *(int(n) for n in rng.choice([n for n in range(2, 513) if n != 17], LENGTHS - 2, replace=False))]
lengths += [int(n) for n in rng.choice(lengths, REQUESTS - LENGTHS)]
worst = 0.0
for i, length in enumerate(lengths):
    x = tf.constant(np.random.default_rng(i).standard_normal((2, length, 64)).astype(np.float32))
    for got, want in zip(block(x), block.python_function(x), strict=True):
        worst = max(worst, float(tf.reduce_max(tf.abs(got - want) / (1.0 + tf.abs(want)))))
    time.sleep(float(sys.argv[4]) if len(sys.argv) > 4 else 0)
print(worst)
