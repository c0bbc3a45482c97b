"""Loops of known length become copies of their bodies that compute the same; others stay, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tests.frontend.check import types_of_graph
from tests.graph.loops.lowered_loops import Lowered, lowered
from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.frontend.tensorflow.importer import import_graph
from tf_stitch.frontend.tensorflow.matmul_scope import Matmuls
from tf_stitch.graph.finish.validation import validate_graph
from tf_stitch.graph.loops.loop_change import LoopChange
from tf_stitch.graph.loops.loop_unrolling import known_numbers, unroll_loops
from tf_stitch.graph.state import GraphState


@dataclass
class Case:
    """A traced function before and after unrolling."""

    before: Lowered
    unrolled: LoopChange

    def check(self, *arrays: Any) -> None:
        """Both graphs give the same."""
        after = self.unrolled.state.graph_def
        validate_graph(self.before.graph_def, after, frozenset())
        for got, wanted in zip(self.before.run(*arrays, graph_def=after), self.before.run(*arrays), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)

    def ops(self) -> list[str]:
        return [node.op for node in self.unrolled.state.graph_def.node]


def unrolled(function: Callable[..., Any], *specs: tf.TensorSpec) -> Case:
    before = lowered(function, *specs)
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(before.graph_def, name="")
        types = types_of_graph(graph)
        result = unroll_loops(GraphState(before.graph_def, types, before.preserved, {"CPU": Matmuls.ALL}))
    import_graph(result.state.graph_def, result.state.types_of)  # every node has its types
    return Case(before, result)


SPEC = tf.TensorSpec([4, 3], tf.float32)
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
LOOP_OPS = {"Enter", "Exit", "Merge", "Switch", "NextIteration", "LoopCond"}


def power(steps: int) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        return tf.while_loop(lambda i, y: i < steps, lambda i, y: (i + 1, tf.tanh(y) * tf.cast(i, tf.float32)), (0, x))

    return function


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_a_counted_loop(steps: int) -> None:
    case = unrolled(power(steps), SPEC)
    assert list(case.unrolled.changed.values()) == [steps]
    assert not LOOP_OPS & set(case.ops())
    assert case.ops().count("Tanh") == steps
    case.check(X)


def test_copies_are_named_after_the_users_nodes(golden: Callable[[str, str], None]) -> None:
    case = unrolled(power(2), SPEC)
    lines = sorted(f"{n.name} = {n.op}({', '.join(n.input)})" for n in case.unrolled.state.graph_def.node
                   if not n.name.startswith("unused_control_flow_input"))  # TensorFlow leaves more or fewer of them
    golden("unrolled_loop", "\n".join(lines) + "\n")


def test_what_no_step_changes_is_there_once() -> None:
    def function(x: Any) -> Any:
        return tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y + tf.exp(x)), (0, x))[1]

    case = unrolled(function, SPEC)
    assert case.ops().count("Exp") == 1
    case.check(X)


def test_lists_become_wires() -> None:
    def function(x: Any) -> Any:
        total = tf.scan(lambda a, row: a + tf.tanh(row), x, initializer=tf.zeros([3]))
        return total, tf.map_fn(lambda row: row * 2, total)

    case = unrolled(function, SPEC)
    assert sorted(case.unrolled.changed.values()) == [4, 4]
    assert not [op for op in case.ops() if op.startswith(("TensorList", "EmptyTensorList"))]
    case.check(X)


@pytest.mark.parametrize("count", [1, 4])
def test_indices_that_count_down(count: int) -> None:
    """Of one step: TensorFlow makes -i of 0 - i."""
    def function(x: Any) -> Any:
        rows = tf.TensorArray(tf.float32, count, element_shape=[3])
        return tf.while_loop(lambda i, r: i < count, lambda i, r: (i + 1, r.write(count - 1 - i, tf.tanh(x[i]))),
                             (0, rows))[1].stack()

    case = unrolled(function, SPEC)
    assert list(case.unrolled.changed.values()) == [count]
    case.check(X)


def test_gradients_pop_what_the_forward_loop_pushed() -> None:
    def function(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = tf.scan(lambda a, row: tf.tanh(a @ w + row[None]), x, initializer=tf.ones([1, 3]))
            loss = tf.reduce_sum(y * y)
        return loss, *tape.gradient(loss, [x, w])

    case = unrolled(function, SPEC, tf.TensorSpec([3, 3]))
    assert sorted(case.unrolled.changed.values()) == [4, 4]
    assert not [op for op in case.ops() if op.startswith(("TensorList", "EmptyTensorList"))]
    case.check(X, X[:3])


@pytest.mark.parametrize("layer", [
    lambda: keras.layers.LSTM(5, use_cudnn=False, return_sequences=True),
    lambda: keras.layers.GRU(5, use_cudnn=False),
    lambda: keras.layers.Bidirectional(keras.layers.LSTM(5, use_cudnn=False, return_sequences=True)),
], ids=["lstm", "gru", "bidirectional"])
def test_keras_layers(layer: Callable[[], Any]) -> None:
    made = layer()
    made.build((2, 6, 3))
    case = unrolled(lambda x: made(x, training=False), tf.TensorSpec([2, 6, 3]))
    assert set(case.unrolled.changed.values()) == {6}
    assert not case.unrolled.stay
    case.check(np.random.default_rng(0).standard_normal((2, 6, 3)).astype(np.float32))


def reasons(function: Callable[..., Any], *specs: tf.TensorSpec) -> list[str]:
    case = unrolled(function, *specs)
    assert not case.unrolled.changed
    assert case.unrolled.state.graph_def is case.before.graph_def
    return list(case.unrolled.stay.values())


def test_a_loop_whose_end_data_decides_stays() -> None:
    assert reasons(lambda x: tf.while_loop(lambda y: tf.reduce_sum(y) < 9, lambda y: (y + 1,), (x,)), SPEC) == [
        "data decides when it ends"]


def test_a_loop_that_keeps_a_state_stays() -> None:
    def function(x: Any) -> Any:
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + tf.random.uniform([4, 3])), (0, x))[1]

    (reason,) = reasons(function, SPEC)
    assert "(RandomUniform) keeps a state" in reason


def test_reads_of_a_variable_wait_for_what_the_loop_waits_for() -> None:
    def function(x: Any, handle: Any) -> Any:
        def step(i: Any, y: Any) -> Any:
            return i + 1, y + tf.ensure_shape(tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32), [4, 3])

        tf.raw_ops.AssignVariableOp(resource=handle, value=x)
        return tf.while_loop(lambda i, y: i < 2, step, (0, x))[1]

    case = unrolled(function, SPEC, tf.TensorSpec([], tf.resource))
    nodes = {node.name: node for node in case.unrolled.state.graph_def.node}
    (assign,) = (name for name, node in nodes.items() if node.op == "AssignVariableOp")

    def behind(name: str) -> set[str]:
        before = {producer_of(t) for t in nodes[name].input}
        return before.union(*map(behind, before))

    reads = [name for name, node in nodes.items() if node.op == "ReadVariableOp"]
    assert reads
    assert all(assign in behind(name) for name in reads)


def test_a_loop_in_a_branch_stays() -> None:
    def function(x: Any) -> Any:
        return tf.cond(tf.reduce_sum(x) > 0, lambda: power(3)(x)[1], lambda: x)

    assert reasons(function, SPEC) == ["it is in a branch or in another loop"]


def test_a_loop_in_a_loop_stays() -> None:
    def function(x: Any) -> Any:
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, power(2)(y)[1]), (0, x))[1]

    assert set(reasons(function, SPEC)) == {"a loop within it", "it is in a branch or in another loop"}


def test_too_many_copies_stay_a_loop() -> None:
    (reason,) = reasons(power(100_000), SPEC)
    assert "more than 30000 nodes" in reason


def test_a_list_that_another_loop_reads_keeps_both() -> None:
    def function(x: Any) -> Any:
        rows = tf.TensorArray(tf.float32, 4, element_shape=[3], clear_after_read=False)
        rows = tf.while_loop(lambda i, r: i < 4, lambda i, r: (i + 1, r.write(i, x[i])), (0, rows))[1]
        read = tf.while_loop(lambda i, y: tf.reduce_sum(y) < 9, lambda i, y: (i, y + rows.read(i) + 1), (0, x[0]))
        return read[1]

    assert sorted(reasons(function, SPEC))[0] == "data decides when it ends"


def test_a_constant_of_one_value_is_not_spelled_out_to_be_looked_at() -> None:
    """Four terabytes of zeros are a few bytes of a graph."""
    node = NodeDef(op="Const")
    tensor = node.attr["value"].tensor
    tensor.CopyFrom(tf.make_tensor_proto(0.0, tf.float32))
    for size in (1 << 20, 1 << 20):
        tensor.tensor_shape.dim.add(size=size)
    assert known_numbers(node) is None
    assert known_numbers(NodeDef(op="Const", attr={"value": tf.compat.v1.AttrValue(
        tensor=tf.make_tensor_proto([3, 4]))})).tolist() == [3, 4]
