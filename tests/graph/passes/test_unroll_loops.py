"""The pass that unrolls loops of known length: what it changes, and what it says of each loop."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tests.graph.loops.lowered_loops import lowered
from tf_stitch.graph.passes.unroll_loops import UnrollLoops

X = tf.TensorSpec([3])


def three_steps(x: Any) -> Any:
    return tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, tf.tanh(a)), (0, x))[1]


def until_large(x: Any) -> Any:
    return tf.while_loop(lambda a: tf.reduce_sum(a) < 9, lambda a: (a + 1,), (x,))


def test_a_loop_of_known_length_is_copies_of_its_body() -> None:
    state = lowered(three_steps, X).state()
    before = state.graph_def.SerializeToString(deterministic=True)
    result = UnrollLoops(True).run(state)
    assert result.modified
    assert [n.op for n in result.graph.graph_def.node].count("Tanh") == 3
    assert not result.graph.has_loops
    assert [(loop.steps, loop.reason) for loop in result.graph.loops] == [(3, None)]
    assert state.graph_def.SerializeToString(deterministic=True) == before


def test_a_loop_that_data_ends_stays_with_the_reason() -> None:
    state = lowered(until_large, X).state()
    result = UnrollLoops(True).run(state)
    assert not result.modified
    assert result.graph.graph_def == state.graph_def
    [loop] = result.graph.loops
    assert loop.steps is None
    assert loop.reason


def test_one_of_two_loops() -> None:
    result = UnrollLoops(True).run(lowered(lambda x: (three_steps(x), until_large(x)), X).state())
    assert result.modified
    assert result.graph.has_loops
    assert sorted(loop.steps or 0 for loop in result.graph.loops) == [0, 3]


def test_switched_off_or_without_loops_the_state_is_the_same() -> None:
    with_loop, without = lowered(three_steps, X).state(), lowered(lambda x: tf.tanh(x), X).state()
    assert UnrollLoops(False).run(with_loop).graph is with_loop
    assert UnrollLoops(True).run(without).graph is without


def test_the_pass_is_idempotent() -> None:
    once = UnrollLoops(True).run(lowered(three_steps, X).state()).graph
    assert not UnrollLoops(True).run(once).modified
