"""The pass by which nodes read sizes from arguments; graph.shapes.argument_sizes is tested by itself."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tests.graph.loops.lowered_loops import lowered
from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.graph.passes.read_sizes_from_arguments import ReadSizesFromArguments

ROWS = tf.TensorSpec([None, 3])


def drawn_behind(x: Any) -> Any:
    y = tf.tanh(x)
    return y * tf.random.stateless_uniform(tf.shape(y), [1, 2])


def test_a_size_is_read_from_the_argument() -> None:
    state = lowered(drawn_behind, ROWS).state()
    result = ReadSizesFromArguments().run(state)
    assert result.modified
    shapes = {producer_of(n.input[0]) for n in result.graph.graph_def.node if n.op == "Shape"}
    assert shapes == {"x"}
    assert "x" not in {producer_of(n.input[0]) for n in state.graph_def.node if n.op == "Shape"}, "it was another's"


def test_the_pass_is_idempotent_and_says_so() -> None:
    once = ReadSizesFromArguments().run(lowered(drawn_behind, ROWS).state()).graph
    again = ReadSizesFromArguments().run(once)
    assert not again.modified
    assert again.graph is once


def test_where_nobody_waits_for_a_size_the_state_is_the_same() -> None:
    state = lowered(lambda x: tf.tanh(x), ROWS).state()
    assert ReadSizesFromArguments().run(state).graph is state
