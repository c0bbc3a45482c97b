"""The pass that names dimensions of feeds alike which are broadcast to each other; graph.shapes.equal_dimensions is
tested by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tests.graph.loops.lowered_loops import lowered
from tests.graph.shapes.test_equal_dimensions import types_of
from tf_stitch.graph.passes.assume_equal_dimensions import AssumeEqualDimensions
from tf_stitch.graph.state import GraphState

ROWS = tf.TensorSpec([None, 3])


def state_of(function: Callable[..., Any], *specs: tf.TensorSpec) -> GraphState:
    case = lowered(function, *specs)
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(case.graph_def, name="")
    return GraphState(case.graph_def, types_of(graph), case.preserved)


def test_two_feeds_that_are_added_have_one_name() -> None:
    state = state_of(lambda x, y: tf.tanh(x + y), ROWS, ROWS)
    result = AssumeEqualDimensions().run(state)
    assert result.modified
    assert result.graph.graph_def is state.graph_def, "no node changes"
    x, y = (result.graph.imported.value(f"{name}:0") for name in "xy")
    assert x is not None
    assert y is not None
    assert x.type.shape == y.type.shape
    assert result.graph.assumption is not None
    assert set(result.graph.assumption.witnesses) == {"x:0", "y:0"}


def test_what_is_known_without_it_is_kept_apart() -> None:
    result = AssumeEqualDimensions().run(state_of(lambda x, y: tf.tanh(x + y), ROWS, ROWS)).graph
    x, y = (result.sure.value(f"{name}:0") for name in "xy")
    assert x is not None
    assert y is not None
    assert x.type.shape != y.type.shape
    assert result.without_assumption.assumption is None


def test_feeds_that_do_not_meet_are_left_alone() -> None:
    state = state_of(lambda x, y: (tf.tanh(x), tf.exp(y)), ROWS, ROWS)
    result = AssumeEqualDimensions().run(state)
    assert not result.modified
    assert result.graph is state
