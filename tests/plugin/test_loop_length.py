from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tf_stitch.plugin.loop_length import is_short

X = tf.TensorSpec((None, 4), tf.float32)
N = tf.TensorSpec((), tf.int32)


def loops_are_short(function: Callable[..., Any], *specs: tf.TensorSpec) -> list[bool]:
    """Of each loop that its graph, and the functions that are called, hold."""
    called = tf.function(function, autograph=False).get_concrete_function(*specs)
    graph = called.graph.as_graph_def()
    functions = {f.signature.name: f for f in graph.library.function}
    # of the function itself, whose values have names of results
    functions |= {"main": called.function_def}
    return [is_short(node, f, functions) for f in functions.values() for node in f.node_def
            if node.op in ("While", "StatelessWhile")]


def counted(start: Callable[[Any, Any], Any], goes_on: Callable[..., Any], step: Callable[..., Any]) -> Any:
    """(x, n) -> a loop over (i, limit, x), whose limit is n."""

    def run(x: Any, n: Any) -> Any:
        def body(i: Any, limit: Any, y: Any) -> Any:
            return *step(i, limit), y * 2.0

        return tf.while_loop(lambda i, limit, y: goes_on(i, limit), body, [start(x, n), n, x])[2]

    return run


SHORT: dict[str, Callable[..., Any]] = {
    "to a number": counted(lambda x, n: 0, lambda i, limit: i < 7, lambda i, limit: (i + 1, limit)),
    "by more": counted(lambda x, n: 1, lambda i, limit: tf.greater_equal(7, i), lambda i, limit: (3 + i, limit)),
    "downwards": counted(lambda x, n: tf.shape(x)[0] - 1, lambda i, limit: i >= 0, lambda i, limit: (i - 1, limit)),
    "to a size": lambda x, n: counted(lambda x, n: 0, lambda i, limit: i < limit, lambda i, limit: (i + 1, limit))(
        x, tf.shape(x)[0]),
    "and another condition": counted(lambda x, n: 0, lambda i, limit: tf.logical_and(limit > 3, i < 7),
                                     lambda i, limit: (i + 1, limit)),
    "map": lambda x, n: tf.map_fn(lambda row: row * 2.0, x),
}
NOT_KNOWN: dict[str, Callable[..., Any]] = {
    "to an argument": counted(lambda x, n: 0, lambda i, limit: i < limit, lambda i, limit: (i + 1, limit)),
    "from an argument": counted(lambda x, n: n, lambda i, limit: i < 7, lambda i, limit: (i + 1, limit)),
    "away": counted(lambda x, n: 0, lambda i, limit: i < 7, lambda i, limit: (i - 1, limit)),
    "nowhere": counted(lambda x, n: 0, lambda i, limit: i < 7, lambda i, limit: (i + 0, limit)),
    "by what is not known": counted(lambda x, n: 0, lambda i, limit: i < 7, lambda i, limit: (i + limit, limit)),
    "from a number to what moves": lambda x, n: counted(
        lambda x, n: 0, lambda i, limit: i < limit, lambda i, limit: (i + 1, limit + 1))(x, tf.shape(x)[0]),
    "to a large number": counted(lambda x, n: 0, lambda i, limit: i < 1_000_000, lambda i, limit: (i + 1, limit)),
    "or another condition": counted(lambda x, n: 0, lambda i, limit: tf.logical_or(limit > 3, i < 7),
                                    lambda i, limit: (i + 1, limit)),
    "backwards": counted(lambda x, n: 5, lambda i, limit: i < 7, lambda i, limit: (1 - i, limit)),
}


@pytest.mark.parametrize("name", SHORT)
def test_loops_that_count_are_short(name: str) -> None:
    assert loops_are_short(SHORT[name], X, N) == [True]


@pytest.mark.parametrize("name", NOT_KNOWN)
def test_others_are_not_known_to_be(name: str) -> None:
    assert loops_are_short(NOT_KNOWN[name], X, N) == [False]


def test_fractions_take_as_many_trips_as_they_like() -> None:
    def run(x: Any, n: Any) -> Any:
        return tf.while_loop(lambda i, y: i < 7.0, lambda i, y: (i + 1e-9, y * 2.0), [0.0, x])[1]

    assert loops_are_short(run, X, N) == [False]


@pytest.mark.usefixtures("ctc_anew")
def test_loops_of_ctc_are_short_whose_conditions_are_functions_of_their_own() -> None:
    def loss(x: Any, labels: Any, length: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.nn.ctc_loss(labels, x, length, length, logits_time_major=False, blank_index=0)
        return tape.gradient(total, x)

    specs = (tf.TensorSpec((2, None, 5)), tf.TensorSpec((2, 3), tf.int32), tf.TensorSpec((2,), tf.int32))
    assert loops_are_short(loss, *specs) == [True, True]


def test_gradients_of_loops_are_as_short() -> None:
    def gradient(x: Any, n: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.map_fn(tf.tanh, x)
        return tape.gradient(y, x)

    assert loops_are_short(gradient, X, N) == [True, True]
