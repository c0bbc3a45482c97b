"""An imported graph some of whose nodes now read other tensors of the same values: only what is new has to be imported,
and what is computed with the other tensors is computed with their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.imported_graph import (
    ImportedGraph,
    ImportedNode,
    canonical_tensor,
    producer_of,
    topological,
)
from tf_stitch.frontend.tensorflow.importer import TypesOf, import_graph
from tf_stitch.frontend.tensorflow.node_context import StaticValue
from tf_stitch.ir.graph import Node, with_operands


def rewired_import(imported: ImportedGraph, graph_def: GraphDef, new: Iterable[NodeDef], types_of: TypesOf,
                   statics: Mapping[str, StaticValue]) -> ImportedGraph:
    """The graph as import_graph would find it.

    Args:
        imported: the graph before, which may have had more nodes.
        graph_def: the graph now.
        new: nodes that it did not have, all of them arithmetic of shapes.
        statics: the values of their tensors as far as somebody reads them, in the words of `imported`.
    """
    fresh = _imported_alone(new, types_of)
    found = replace(imported, nodes={}, owner={}, statics={})
    for node in topological({node.name: node for node in graph_def.node}):
        was = imported.nodes.get(node.name)
        now = found.nodes[node.name] = fresh.nodes[node.name] if was is None else _with_inputs_of(node, was, imported,
                                                                                                  found)
        for index, value in enumerate(now.outputs):
            tensor = f"{node.name}:{index}"
            if value is not None:
                found.owner.setdefault(value, tensor)
            known = (statics if was is None else imported.statics).get(tensor)
            if known is not None:
                found.statics[tensor] = known
    return found


def _imported_alone(new: Iterable[NodeDef], types_of: TypesOf) -> ImportedGraph:
    """The new nodes, with something in the place of what they read."""
    graph = GraphDef(node=new)
    names = {node.name for node in graph.node}
    for name in dict.fromkeys(producer_of(edge) for node in graph.node for edge in node.input):
        if name not in names:
            graph.node.add(name=name, op="Placeholder")
    return import_graph(graph, types_of)


def _with_inputs_of(node: NodeDef, was: ImportedNode, before: ImportedGraph, now: ImportedGraph) -> ImportedNode:
    """The node with the inputs that it has now. A region reads the tensors that its IR is made of, so IR is made of the
    values of these inputs, too: the tensors that the node read before may be computed elsewhere, or be gone."""
    inputs = tuple(canonical_tensor(edge) for edge in node.input if not edge.startswith("^"))
    values: dict[Node, Node] = {}
    for tensor, other in zip(was.inputs, inputs, strict=True):
        old = before.value(tensor)
        if old is not None and producer_of(other) in now.nodes:  # not so along the back edge of a loop
            values.setdefault(old, now.value(other) or old)
    if inputs == was.inputs and all(old is new for old, new in values.items()):
        return was
    names = dict(zip(was.inputs, inputs, strict=True))
    return replace(was, inputs=inputs, private=tuple(names[t] for t in was.private),
                   ignored=tuple(names[t] for t in was.ignored),
                   outputs=tuple(None if value is None else _with_values(value, values) for value in was.outputs),
                   writes={handle: _with_values(value, values) for handle, value in was.writes.items()})


def _with_values(root: Node, values: Mapping[Node, Node]) -> Node:
    """What a node computes, made of other values.

    Args:
        values: of its inputs, then and now.
    """
    made = dict(values)
    stack = [root]
    while stack:
        node = stack[-1]
        missing = [] if node in made else [operand for operand in node.operands if operand not in made]
        stack.extend(missing)
        if not missing:
            stack.pop()
            if node not in made:
                made[node] = with_operands(node, tuple(made[operand] for operand in node.operands))
    return made[root]
