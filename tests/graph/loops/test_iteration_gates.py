"""Loops of which nothing but a value from outside goes from iteration to iteration."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from tests.frontend.check import types_of_graph
from tf_stitch.frontend.tensorflow.matmul_scope import Matmuls
from tf_stitch.graph.loops.iteration_gates import gate_iterations
from tf_stitch.graph.loops.loop_hoisting import hoist
from tf_stitch.graph.state import GraphState

PATIENCE_MS = 20_000


def node(name: str, op: str, *inputs: str) -> Any:
    return tf.compat.v1.NodeDef(name=name, op=op, input=inputs)


def loop(*body: Any) -> list[Any]:
    return [node("first", "Enter", "x"), node("outer", "Enter", "v"), node("here", "Merge", "first", "next"),
            node("is_on", "LoopCond", "c"), node("which", "Switch", "here", "is_on"), *body,
            node("last", "Exit", "which")]


def test_a_value_from_outside_waits_for_the_body() -> None:
    nodes = loop(node("in_body", "Identity", "which:1"), node("same", "Identity", "outer"),
                 node("next", "NextIteration", "same"))
    assert gate_iterations(nodes) is None
    assert next(n.input for n in nodes if n.name == "next") == ["same", "^in_body"]


def test_a_body_without_a_node_of_its_own_gets_one() -> None:
    nodes = loop(node("ended", "Identity", "which"), node("next", "NextIteration", "outer"))
    new = gate_iterations(nodes)
    assert new is not None
    assert list(new.input) == ["which:1"]
    assert next(n.input for n in nodes if n.name == "next") == ["outer", f"^{new.name}"]


@pytest.mark.parametrize("body", [[node("sum", "Add", "which:1", "outer"), node("next", "NextIteration", "sum")],
                                  [node("in_body", "Identity", "which:1"), node("zero", "Const", "^in_body"),
                                   node("next", "NextIteration", "zero")]])
def test_others_wait_for_nothing_more(body: list[Any]) -> None:
    before = [list(n.input) for n in loop(*body)]
    nodes = loop(*body)
    assert gate_iterations(nodes) is None
    assert [list(n.input) for n in nodes] == before


@pytest.mark.timeout(60, method="thread")  # TensorFlow hears no signal
def test_a_loop_that_reads_a_variable_ends() -> None:
    v1 = tf.compat.v1
    lowers = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            variable = v1.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
            carried = v1.while_loop(lambda i, _: i < 1, lambda i, _: (i + 1, variable.read_value()),
                                    (tf.constant(0), tf.zeros([2])))
            result = tf.identity(carried[1])
    finally:
        if lowers:
            v1.enable_control_flow_v2()
    kept = frozenset((variable.initializer.name, result.op.name))
    graph_def = hoist(GraphState(graph.as_graph_def(), types_of_graph(graph), kept, {"CPU": Matmuls.ALL})).graph_def
    assert any(n.name.endswith("/tfs_enter") for n in graph_def.node), "the read is outside"
    with tf.Graph().as_default() as hoisted, v1.Session(graph=hoisted) as session:
        tf.graph_util.import_graph_def(graph_def, name="")
        session.run(variable.initializer.name)
        found = session.run(result.name, options=v1.RunOptions(timeout_in_ms=PATIENCE_MS))
    assert list(found) == [1.0, 2.0]
