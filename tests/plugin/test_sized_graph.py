"""Sizes of a call's values: as TensorFlow's shape functions find them with the call's arguments."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensorflow as tf

from tests.plugin.test_graph_memory import graph_of
from tf_stitch.plugin.graph_memory import live_bytes
from tf_stitch.plugin.sized_graph import types_in_call


def dims(make: Callable[..., object], *arguments: tf.Tensor) -> tuple[int, ...] | None:
    """Of the result, where the graph knows no size of its arguments."""
    graph, types = graph_of(make, *([None] * argument.shape.rank for argument in arguments))
    for node in graph.node:
        if node.op == "_Arg":
            node.attr["index"].i = int(node.name[1:])
    [(_, found)] = types_in_call(graph, types, arguments)("result0")
    return found


def gradient_of_a_broadcast(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    [found] = tf.gradients(tf.square(x - y), y)
    return found


@pytest.mark.parametrize(("make", "shapes", "expected"), [
    (lambda x: tf.reshape(x, [-1, 2]), [[4, 6]], (12, 2)),
    (lambda x: tf.zeros([tf.shape(x)[1], tf.shape(x)[0]]), [[4, 6]], (6, 4)),
    (lambda x: tf.reshape(x, [tf.shape(x)[0], -1, 3]), [[4, 6]], (4, 2, 3)),
    (gradient_of_a_broadcast, [[4, 6], [1, 6]], (1, 6)),
    (lambda x: tf.boolean_mask(x, x > 0), [[4]], (-1,)),
])
def test_sizes_follow_from_the_arguments(make: Callable[..., object], shapes: list[list[int]],
                                         expected: tuple[int, ...]) -> None:
    assert dims(make, *map(tf.ones, shapes)) == expected


def test_what_depends_on_values_is_of_unknown_size() -> None:
    graph, types = graph_of(lambda x: tf.raw_ops.Exp(x=tf.boolean_mask(x, x > 0)), [None])
    assert live_bytes(graph, types_in_call(graph, types, [tf.ones([4])]), {}) is None
