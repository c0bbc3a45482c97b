"""Slices whose begin is a value of the graph: what has to be checked where a GPU computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import trace
from tf_stitch.frontend.tensorflow.legalize.dynamic_slices import take
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph, key_of
from tf_stitch.ir.interpreter import interpret


@cache
def x() -> Any:
    with tf.init_scope():  # a tensor that graphs capture
        return tf.constant(np.arange(10, dtype=np.float32).reshape(2, 5))


CUTS: dict[str, Callable[[Any], Any]] = {
    "slice": lambda at: tf.slice(x(), [0, at], [2, 3]),
    "slice of all": lambda at: tf.slice(x(), tf.stack([at, 1]), [2, 3]),
    "index": lambda at: x()[:, at],
    "two indices": lambda at: x()[at - 1, at + 2],
}


@pytest.mark.parametrize("name", CUTS)
def test_checks_say_what_tensorflow_refuses(name: str) -> None:
    traced = trace(CUTS[name], tf.TensorSpec([], tf.int32))
    assert not traced.opaque()
    for at in range(-7, 8):
        assert inside(traced.imported.nodes.values(), at) == works(CUTS[name], at), at


def works(cut: Callable[[Any], Any], at: int) -> bool:
    try:
        cut(tf.constant(at))
    except tf.errors.InvalidArgumentError:
        return False
    return True


def inside(nodes: Any, at: int) -> bool:
    checks = [check for node in nodes for check in node.checks]
    assert checks
    graph = TensorGraph("checks", [(str(i), check.inside) for i, check in enumerate(checks)])
    results = interpret(graph, {key_of(n): np.int32(at) for n in graph.inputs()})
    return all(bool(value) for value in results.values())


@pytest.mark.parametrize("sizes", [(2, 5), (1, 2)])
def test_known_begins_are_checked_at_once(sizes: Sequence[int]) -> None:
    nodes = trace(lambda x: tf.slice(x, [0, 0], sizes), tf.TensorSpec([2, 5])).imported.nodes
    assert not any(node.checks for node in nodes.values())


def test_an_axis_beside_axes_of_one_is_looked_up_as_it_lies() -> None:
    """Nothing is turned; what is found has the same shape."""
    b = Builder()
    x, at = b.input("x", DType.F32, (1, 7, 1)), b.input("at", DType.I32, (2,))
    graph = TensorGraph("taken", [("o0", take(b, x, 1, at))])
    assert [n.kind.value for n in graph.nodes()].count("transpose") == 0
    value = np.arange(7, dtype=np.float32).reshape(1, 7, 1)
    found = interpret(graph, {"x": value, "at": np.array([5, 2], np.int32)})["o0"]
    np.testing.assert_array_equal(found, value[:, [5, 2]])
