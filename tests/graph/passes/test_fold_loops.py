"""The pass that folds loops whose length is a size: it works on what unrolling left."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tests.graph.loops.lowered_loops import lowered
from tf_stitch.graph.loops.sized_loops import STITCH_LOOP
from tf_stitch.graph.passes.fold_loops import NOT_FOLDED, FoldLoops
from tf_stitch.graph.passes.unroll_loops import UnrollLoops
from tf_stitch.graph.state import GraphState

ROWS = tf.TensorSpec([None, 3])


def left(function: Any) -> GraphState:
    """A graph whose loops are not unrolled."""
    return UnrollLoops(True).run(lowered(function, ROWS).state()).graph


def running(x: Any) -> Any:
    return tf.scan(lambda a, row: tf.tanh(a) + row, x, initializer=tf.zeros([3]))


def test_a_loop_whose_length_is_a_size_is_one_node() -> None:
    result = FoldLoops(True).run(left(running))
    assert result.modified
    assert [n.op for n in result.graph.graph_def.node].count(STITCH_LOOP) == 1
    assert [(loop.steps, loop.reason) for loop in result.graph.loops] == [(None, None)]


def test_a_loop_that_cannot_be_folded_keeps_a_reason() -> None:
    state = left(lambda x: tf.while_loop(lambda a: tf.reduce_sum(a) < 9, lambda a: (a + 1,), (x,)))
    result = FoldLoops(True).run(state)
    assert not result.modified
    assert [loop.reason for loop in result.graph.loops] == ["data decides when it ends"]


def test_where_no_fallback_could_run_nothing_is_folded_and_it_is_said() -> None:
    state = left(running)
    result = FoldLoops(True, allowed=False).run(state)
    assert not result.modified
    assert result.graph.graph_def == state.graph_def
    [loop] = result.graph.loops
    assert loop.reason is not None
    assert loop.reason.endswith(NOT_FOLDED)


def test_loops_that_are_unrolled_stay_in_the_report() -> None:
    def both(x: Any) -> Any:
        return tf.while_loop(lambda i, _: i < 2, lambda i, a: (i + 1, tf.sin(a)), (0, running(x)))[1]

    result = FoldLoops(True).run(left(both))
    assert sorted(loop.steps or 0 for loop in result.graph.loops) == [0, 2]
    assert all(loop.reason is None for loop in result.graph.loops)


def test_switched_off_the_state_is_the_same() -> None:
    state = left(running)
    assert FoldLoops(False).run(state).graph is state
