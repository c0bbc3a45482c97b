"""Keys of functions: equal for what computes the same, in whatever order a program makes its functions."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python.eager.context import context

from tf_stitch.plugin import function_key
from tf_stitch.plugin.function_definition import FunctionDefinition
from tf_stitch.plugin.function_key import FunctionKeys

KEPT = []  # TensorFlow removes functions that nobody holds


def definition(factor: float = 2.0, size: int = 3, flips: bool = False) -> FunctionDefinition:
    @tf.function
    def inner(x: Any, y: Any) -> Any:
        return x * factor - y

    @tf.function
    def outer(x: Any, y: Any) -> Any:
        return inner(y, x) if flips else inner(x, y)

    made = outer.get_concrete_function(*[tf.TensorSpec([size], tf.float32)] * 2)
    KEPT.append(made)
    return FunctionDefinition(context(), made.name)


def test_equal_functions_have_one_key() -> None:
    first, second = definition(), definition()
    assert first.functions[0].signature.name != second.functions[0].signature.name
    assert first.key() == second.key()
    assert {node.op for node in first.nodes()} > {"Mul", "Sub"}, "of the function that it calls, too"


def test_others_have_others() -> None:
    keys = {definition(**change).key() for change in ({}, {"factor": 3.0}, {"size": 4}, {"flips": True})}
    assert len(keys) == 4


def test_names_of_nodes_do_not_count() -> None:
    def named(name: str) -> str:
        made = tf.function(lambda x: tf.add(tf.tanh(x, name=name), 1.0, name=name)).get_concrete_function(
            tf.TensorSpec([2], tf.float32))
        KEPT.append(made)
        return FunctionDefinition(context(), made.name).key()

    assert named("a") == named("b")


def test_the_order_of_nodes_does_not_count() -> None:
    """A gradient's follows hashes of strings."""
    given = definition()
    for function in given.functions:
        nodes = list(reversed(function.node_def))
        del function.node_def[:]
        function.node_def.extend(nodes)
    assert given.key() == definition().key()


def test_results_count() -> None:
    def returning(node: str) -> str:
        made = FunctionDef()
        made.signature.input_arg.add(name="x", type=1)
        made.signature.output_arg.add(name="y", type=1)
        made.node_def.add(name="a", op="Sin", input=["x"])
        made.node_def.add(name="b", op="Cos", input=["x"])
        made.ret["y"] = f"{node}:y:0"
        return FunctionKeys({"f": made}).key("f")

    assert returning("a") == returning("a") != returning("b")


def test_loops_of_tensorflow_1_and_functions_that_call_themselves_have_keys() -> None:
    def function(name: str, *nodes: tuple[str, str, list[str]]) -> FunctionDef:
        made = FunctionDef()
        made.signature.name = name
        for node, op, inputs in nodes:
            made.node_def.add(name=node, op=op, input=inputs)
        return made

    def keys(first: str, last: str) -> str:
        loop = [("a", "Merge", ["b:output:0"]), ("b", first, ["a:output:0"]), ("c", last, ["b:output:0"])]
        return FunctionKeys({"f": function("f", *loop, ("d", "f", ["^c"]))}).key("f")

    assert keys("Sin", "Cos") == keys("Sin", "Cos") != keys("Sin", "Exp")


def test_edges_are_looked_at_once_for_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a graph as deep as it is long, in which a node reads many: a search through all of them would not end."""
    looked = []
    producer = function_key._producer
    monkeypatch.setattr(function_key, "_producer", lambda edge: looked.append(edge) or producer(edge))
    nodes = {f"n{i}": NodeDef(name=f"n{i}", op="AddN", input=[f"n{max(i - k, 0)}:sum:0" for k in (1, 2, 3) if i])
             for i in reversed(range(3000))}
    assert [node.name for node in function_key._operands_first(nodes)] == [f"n{i}" for i in range(3000)]
    assert len(looked) == 3 * 2999


def test_calls_of_tensorflow_1_count_whatever_the_function_s_name() -> None:
    from tensorflow.python.framework import function

    def calling(name: str, factor: float) -> FunctionDefinition:
        inner = function.Defun(tf.float32, func_name=name)(lambda x: x * factor)
        made = tf.function(lambda x: inner(x)).get_concrete_function(tf.TensorSpec([2], tf.float32))
        KEPT.append(made)
        return FunctionDefinition(context(), made.name)

    one, same, other = calling("one", 2.0), calling("same", 2.0), calling("other", 3.0)
    assert one.functions[1].signature.name == "one"
    assert one.key() == same.key() != other.key()


def test_size_is_that_of_constants() -> None:
    made = tf.function(lambda x: x + tf.constant([1.0] * 5000 + [2.0])).get_concrete_function(
        tf.TensorSpec([5001], tf.float32))
    KEPT.append(made)
    assert 20_000 < FunctionDefinition(context(), made.name).size < 30_000
