"""Sizes of a graph's values in one call, where the graph itself does not know them.

TensorFlow's shape functions run over a copy of the graph whose inputs have the sizes that they have in this call: those
of its arguments, and the largest that a data set gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.graph.graph_item import OutputType
from tf_stitch.plugin.element_shapes import largest_elements
from tf_stitch.plugin.graph_memory import Types

ITERATORS = frozenset(("IteratorGetNext", "IteratorGetNextSync"))
_GIVEN = ITERATORS | {"_Arg", "ReadVariableOp"}
"""Ops whose results have the sizes that `_given` says."""


def types_in_call(graph: GraphDef, types: Types, arguments: Sequence[Any]) -> Types:
    """Output types as GraphItem has them; dimensions that depend on what is computed are -1.

    Args:
        types: as far as the graph knows.
        arguments: of the call.
    """
    nodes = {node.name: node for node in graph.node}
    given = {node.name: list(_given(node, nodes, types, arguments)) for node in graph.node if node.op in _GIVEN}
    sized = tf.Graph()
    with sized.as_default():
        tf.graph_util.import_graph_def(GraphDef(
            node=[*_inputs(given), *(_copied(node, given) for node in graph.node if node.name not in given)],
            versions=graph.versions, library=graph.library), name="")

    def types_of(name: str) -> list[OutputType]:
        return given[name] if name in given else [
            (tensor.dtype.as_datatype_enum, None if tensor.shape.rank is None else
             tuple(-1 if size is None else size for size in tensor.shape))
            for tensor in sized.get_operation_by_name(name).outputs]

    return types_of


def _given(node: NodeDef, nodes: dict[str, NodeDef], types: Types, arguments: Sequence[Any]) -> Iterator[OutputType]:
    source = node
    while node.op in ITERATORS and source.input and source.op != "_Arg":
        source = nodes[producer_of(source.input[0])]
    index = source.attr["index"].i
    argument = arguments[index] if source.op == "_Arg" and index < len(arguments) else None
    elements = largest_elements(argument) if node.op in ITERATORS else None
    for place, (dtype, dims) in enumerate(types(node.name)):
        if dims is not None and min(dims, default=0) >= 0:
            yield dtype, dims
        elif elements is not None:
            yield dtype, elements[place]
        elif node.op == "_Arg" and argument is not None:
            yield dtype, tuple(argument.shape)
        else:
            yield dtype, dims


def _inputs(given: dict[str, list[OutputType]]) -> Iterator[NodeDef]:
    for name, outputs in given.items():
        for place, (dtype, dims) in enumerate(outputs):
            node = NodeDef(name=_name(name, place), op="Placeholder")
            node.attr["dtype"].type = dtype
            shape = tf.TensorShape(None if dims is None else [None if size < 0 else size for size in dims])
            node.attr["shape"].shape.CopyFrom(shape.as_proto())
            yield node


def _copied(node: NodeDef, given: dict[str, list[OutputType]]) -> NodeDef:
    """Without what it waits for but does not read, its device, and remarks on it."""
    is_result = node.op == "_Retval"
    copy = NodeDef(name=node.name, op="Identity" if is_result else node.op)
    for edge in node.input:
        name, _, place = edge.partition(":")
        if not edge.startswith("^"):
            copy.input.append(_name(name, int(place or 0)) if name in given else edge)
    for key, value in node.attr.items():
        if not key.startswith("_") and not (is_result and key == "index"):
            copy.attr[key].CopyFrom(value)
    return copy


def _name(node: str, place: int) -> str:
    """Of the input that stands for an output of a node."""
    return f"{node}/given_{place}"
