"""Whether a loop is known to end soon: the most trips that TensorFlow counts are a small number or a tensor's size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

MOST_TRIPS = 10_000
"""Of a loop that is short, where its length is a number. One over a tensor is as long as what is in memory."""
_COUNTER = 0
"""The place of TensorFlow's own counter among a loop's values, with `maximum_iterations` and in a gradient."""


def is_short(loop: NodeDef, caller: FunctionDef, functions: Mapping[str, FunctionDef]) -> bool:
    """Of a While node of `caller`.

    Args:
        functions: those that nodes name.
    """
    nodes = {node.name: node for node in caller.node_def}
    return any(_is_small(loop.input[place], nodes, caller, functions)
               for place in _limits(functions[loop.attr["cond"].func.name]))


def _limits(condition: FunctionDef) -> Iterator[int]:
    """Places of the values that the counter has to be less than: those of conditions that all must hold."""
    nodes = {node.name: node for node in condition.node_def}
    places = {argument.name: place for place, argument in enumerate(condition.signature.input_arg)}
    todo = list(condition.ret.values())
    while todo:
        node = nodes.get(todo.pop().partition(":")[0])
        if node is None:
            continue
        if node.op in ("Identity", "LogicalAnd"):
            todo += [name for name in node.input if not name.startswith("^")]
        elif node.op == "Less" and places.get(node.input[0]) == _COUNTER and node.input[1] in places:
            yield places[node.input[1]]


def _is_small(value: str, nodes: Mapping[str, NodeDef], caller: FunctionDef, functions: Mapping[str, FunctionDef]
              ) -> bool:
    name, _, output = value.partition(":")
    node = nodes.get(name)
    if node is None:  # an argument
        return False
    if node.op == "Const":
        return bool(tf.make_ndarray(node.attr["value"].tensor) <= MOST_TRIPS)
    if node.op == "StridedSlice":
        shape = nodes.get(node.input[0].partition(":")[0])
        return shape is not None and shape.op in ("Shape", "ShapeN")
    # A gradient's loop is as long as the loop before it, which gives it its counter.
    is_counter = node.op in ("StatelessWhile", "While") and output == f"output:{_COUNTER}"
    return is_counter and is_short(node, caller, functions)
