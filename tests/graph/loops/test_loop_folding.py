"""Which loops become one node, what the node reads and gives, and why others stay loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tests.graph.loops.lowered_loops import lowered
from tf_stitch.graph.loops.loop_change import LoopChange
from tf_stitch.graph.loops.loop_folding import SMALL, fold_sized_loops
from tf_stitch.graph.loops.sized_loops import STITCH_LOOP, InputDimension

ROWS = tf.TensorSpec([None, 3], tf.float32)
LOOP_OPS = {"Enter", "Exit", "Merge", "Switch", "NextIteration", "LoopCond"}


def fold(function: Callable[..., Any], *specs: tf.TensorSpec) -> LoopChange:
    return fold_sized_loops(lowered(function, *specs).state())


def node_of(folded: LoopChange) -> NodeDef:
    [node] = [n for n in folded.state.graph_def.node if n.op == STITCH_LOOP]
    return node


def running_sum(x: Any) -> Any:
    return tf.scan(lambda a, row: tf.tanh(a) + row, x, initializer=tf.zeros([3])) * 2.0


def test_a_loop_over_rows_is_one_node() -> None:
    case = lowered(running_sum, ROWS)
    before = case.graph_def.SerializeToString(deterministic=True)
    folded = fold_sized_loops(case.state())
    assert list(folded.changed.values()) == [None]
    assert not folded.stay
    assert not LOOP_OPS & {n.op for n in folded.state.graph_def.node}
    [(name, loop)] = folded.state.sized.items()
    assert name == node_of(folded).name
    assert case.feeds[0] in loop.inputs
    assert InputDimension(loop.inputs.index(case.feeds[0]), 0) in \
        [e for elements in loop.sizes.values() for e in elements.flat]
    assert case.graph_def.SerializeToString(deterministic=True) == before


def test_readers_of_the_loop_read_the_node() -> None:
    folded = fold(running_sum, ROWS)
    name = node_of(folded).name
    [user] = [n for n in folded.state.graph_def.node if n.op == "Mul"]
    assert user.input[0] == f"{name}:0"
    [(_, dims)] = folded.state.types_of(name)
    assert dims is not None
    assert dims[1:] == (3,)


def test_small_constants_go_into_the_loop_and_large_ones_do_not() -> None:
    def adds(width: int) -> Callable[[Any], Any]:
        constant = tf.range(width, dtype=tf.float32) * 0.5
        return lambda x: tf.scan(lambda a, row: tf.tanh(a + constant) + row, x, initializer=tf.zeros([width]))

    small, large = (fold(adds(width), tf.TensorSpec([None, width], tf.float32)) for width in (SMALL, SMALL + 1))
    [few], [more] = (list(f.state.sized.values()) for f in (small, large))
    assert len(more.inputs) > len(few.inputs)


def test_what_waits_for_the_loop_waits_for_the_node() -> None:
    def function(x: Any) -> Any:
        rows = running_sum(x)
        with tf.control_dependencies([rows]):
            return tf.identity(x) + 1.0, rows

    case = lowered(function, ROWS)
    state = fold_sized_loops(case.state()).state
    names = {n.name for n in state.graph_def.node}
    assert {edge.lstrip("^").partition(":")[0] for n in state.graph_def.node for edge in n.input} <= names


def test_a_graph_without_loops_is_as_it_was() -> None:
    state = lowered(lambda x: tf.tanh(x), ROWS).state()
    folded = fold_sized_loops(state)
    assert folded.state is state
    assert (dict(folded.changed), dict(folded.stay)) == ({}, {})


def stays(function: Callable[..., Any], *specs: tf.TensorSpec) -> str:
    case = lowered(function, *specs)
    state = case.state()
    folded = fold_sized_loops(state)
    assert not folded.changed
    assert folded.state is state
    (reason, *_) = sorted(folded.stay.values())
    return reason


def test_loops_in_loops_stay() -> None:
    def function(x: Any) -> Any:
        return tf.map_fn(lambda row: tf.reduce_sum(tf.map_fn(tf.tanh, row)), x)

    assert stays(function, tf.TensorSpec([None, None], tf.float32)) == "a loop within it"


def test_what_data_ends_stays() -> None:
    assert stays(lambda x: tf.while_loop(lambda y: tf.reduce_sum(y) < 9, lambda y: (y + 1,), (x,)), ROWS) == \
        "data decides when it ends"


def test_what_no_region_could_hold_stays() -> None:
    def function(x: Any) -> Any:
        return tf.map_fn(lambda row: tf.math.igamma(row, row), x)

    assert "Igamma" in stays(function, ROWS)


def test_gradients_stay() -> None:
    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(running_sum(x))
        return tape.gradient(loss, x)

    assert "list" in stays(function, ROWS)
