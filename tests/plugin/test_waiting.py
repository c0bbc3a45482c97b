"""Which functions' first calls may run TensorFlow's graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.eager.context import context

from tests.support.function_calls import call_of
from tf_stitch.plugin.waiting import may_wait

COUNTER: Any


@pytest.fixture(scope="module", autouse=True)
def counter() -> None:
    """Not before tests run: see tests/support/workers.py."""
    global COUNTER
    COUNTER = tf.Variable(1.0)


def state_of_a_variable(x: Any) -> Any:
    return x * COUNTER.read_value()


def looping(x: Any) -> Any:
    return tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, a * 2), (0, x))[1]


def looping_so_often(x: Any, most: int = 10) -> Any:
    return tf.while_loop(lambda _: tf.reduce_sum(x) < 9, lambda a: (a * 2,), (x,), maximum_iterations=most)[0]


def over_rows(x: Any) -> Any:
    return tf.map_fn(lambda row: row * 2, x)


def gradient_over_rows(x: Any) -> Any:
    return tf.gradients(tf.map_fn(tf.tanh, x), x)


def gradient_of_a_recurrent_layer(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(COUNTER)
        y = tf.scan(lambda state, row: tf.tanh(state + row * COUNTER), x, tf.constant(0.0))
    return tape.gradient(y, COUNTER)


def looping_for_long(x: Any) -> Any:
    return looping_so_often(x, 1_000_000)


def looping_until(x: Any) -> Any:
    return tf.while_loop(lambda a: tf.reduce_sum(a) < 9, lambda a: (a * 2,), (x,))[0]


def losing_by_ctc(x: Any) -> Any:
    """Its loops call functions by their names alone, and it makes an array without a value."""
    ones = tf.ones([1], tf.int32)
    return tf.nn.ctc_loss(ones[None], tf.ones([1, 3, 4]) * x[0], ones, ones, logits_time_major=False, blank_index=0)


def looping_in_a_loop(x: Any) -> Any:
    return tf.map_fn(looping, x)


def over_a_data_set(x: Any) -> Any:
    for element in tf.data.Dataset.range(3):
        x = x + tf.cast(element, tf.float32)
    return x


def seeded(x: Any) -> Any:
    return x + tf.random.uniform(tf.shape(x), seed=3)


def in_a_loop(x: Any) -> Any:
    return tf.map_fn(lambda row: row + tf.random.uniform([], seed=3), x)


def unseeded(x: Any) -> Any:
    return x + tf.random.uniform(tf.shape(x))


@pytest.mark.parametrize(("body", "may"), [(state_of_a_variable, True), (seeded, False), (in_a_loop, False),
                                           (unseeded, True), (looping, True), (over_a_data_set, False),
                                           (looping_so_often, True), (over_rows, True), (gradient_over_rows, True),
                                           (gradient_of_a_recurrent_layer, True), (looping_for_long, False),
                                           (looping_in_a_loop, True), (looping_until, False),
                                           (losing_by_ctc, True)])
@pytest.mark.usefixtures("ctc_anew")
def test_a_kernels_own_state_and_long_loops_do_not_wait(body: Callable[..., Any], may: bool) -> None:
    def step(x: Any) -> Any:
        COUNTER.assign_add(0.0)
        return body(x)

    tf.random.set_seed(None)  # which other tests set: then no op is without a seed
    ctx, name, *_ = call_of(tf.function(step), tf.constant([1.0, 2.0]))
    assert (may_wait(ctx, name) is not None) == may


def test_what_writes_no_variable_may_wait() -> None:
    ctx, name, *_ = call_of(tf.function(lambda x: x * 2), tf.constant([1.0]))
    assert may_wait(ctx, name) is not None


def test_what_xla_compiles_may_not_wait() -> None:
    counter = tf.Variable(0)
    compiled = tf.function(lambda x: counter.assign_add(1), jit_compile=True)
    assert may_wait(context(), compiled.get_concrete_function(tf.constant([1.0])).name) is None
