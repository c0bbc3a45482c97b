"""TensorFlow 1's BasicLSTMCell: one matmul for all four gates."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class BasicLSTM:
    """A cell whose state is (c, h), each [batch, units]."""

    def __init__(self, name: str, depth: int, units: int) -> None:
        self._units = units
        with tf.compat.v1.variable_scope(name):
            uniform = tf.compat.v1.glorot_uniform_initializer()
            self._kernel = tf.compat.v1.get_variable("kernel", [depth + units, 4 * units], initializer=uniform)
            self._bias = tf.compat.v1.get_variable("bias", initializer=tf.zeros([4 * units]))

    def zero_state(self, batch: Any) -> tuple[Any, Any]:
        zeros = tf.zeros([batch, self._units])
        return zeros, zeros

    def __call__(self, x: Any, state: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
        c, h = state
        gates = tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), self._kernel), self._bias)
        enter, new, forget, leave = tf.split(gates, 4, 1)
        c = c * tf.sigmoid(forget + 1.0) + tf.sigmoid(enter) * tf.tanh(new)
        h = tf.tanh(c) * tf.sigmoid(leave)
        return h, (c, h)
