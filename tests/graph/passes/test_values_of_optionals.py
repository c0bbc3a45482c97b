"""Gradients of branches read values, and no optionals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.graph.branches.programs import Program, branch_ops

X = [np.array(x, np.float32) for x in ([1, 2, 3, 4], [-1, 0, 2, -5], [2, 9, -9, 9], [0, 0, 0, 0])]
WEIGHTS = np.array([1, -0.5, 3, 4], np.float32)


def gradient_of(loss: Any) -> Program:
    """A step of gradient descent, with a loss of a variable and of x."""

    def function(variables: list[tf.Variable], x: tf.Tensor) -> list[tf.Tensor]:
        [weights] = variables
        with tf.GradientTape() as tape:
            value = loss(weights, x)
        gradient = tape.gradient(value, weights)
        weights.assign_sub(0.1 * gradient)
        return [value, gradient]

    return Program(function, [WEIGHTS])


def branch(weights: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    return tf.cond(x[0] > 0, lambda: tf.reduce_sum(tf.tanh(weights * x)), lambda: tf.reduce_sum(tf.exp(-weights)))


def matmul(weights: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    rows = tf.reshape(weights, [2, 2])
    return tf.cond(x[0] > 0, lambda: tf.reduce_sum(tf.sin(tf.matmul(rows, tf.tanh(rows)))), lambda: tf.reduce_sum(x))


def in_another(weights: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    return tf.cond(x[0] > 0, lambda: tf.cond(x[1] > 3, lambda: tf.reduce_sum(tf.tanh(weights) ** 3),
                                             lambda: tf.reduce_sum(tf.exp(weights) * x)),
                   lambda: tf.reduce_sum(weights ** 2))


def second_of_two(weights: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    first = tf.cond(x[0] > 0, lambda: tf.sin(weights) * x, lambda: tf.exp(weights * 0.5))
    return tf.reduce_sum(tf.cond(x[1] > 3, lambda: tf.tanh(first) * x, lambda: first ** 2))


@pytest.mark.parametrize("loss", [branch, matmul, in_another, second_of_two], ids=lambda f: f.__name__)
def test_steps_leave_the_same(loss: Any) -> None:
    program = gradient_of(loss)
    assert any("Optional" in node.op for node in program.before.node)
    assert not any("Optional" in node.op for node in program.after.node)
    assert branch_ops(program.before)
    assert not branch_ops(program.after)
    program.check(X)


def test_a_branch_that_stays_reads_values_too() -> None:
    """What runs on a side is dead where the other is taken, as its gradient is."""

    def stays(weights: tf.Variable, x: tf.Tensor) -> tf.Tensor:
        def side() -> tf.Tensor:
            with tf.control_dependencies([tf.debugging.Assert(x[1] > -100, [x])]):
                return tf.reduce_sum(tf.tanh(weights * x))

        return tf.cond(x[0] > 0, side, lambda: tf.reduce_sum(tf.exp(-weights)))

    program = gradient_of(stays)
    assert branch_ops(program.after)
    assert not any("Optional" in node.op for node in program.after.node)
    program.check(X)
