"""Small TensorFlow graphs in a line a node, for tests of what edits them."""

from __future__ import annotations

from tensorflow.core.framework.graph_pb2 import GraphDef


def graph_of(text: str) -> GraphDef:
    """A graph of lines as `name = Op(input, other:1, ^control)`."""
    graph = GraphDef()
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, call = line.partition(" = ")
        op, _, inputs = call.rstrip(")").partition("(")
        graph.node.add(name=name, op=op, input=[i.strip() for i in inputs.split(",") if i.strip()])
    return graph


def text_of(graph: GraphDef) -> str:
    """The text of a graph, as `graph_of` reads it."""
    return "\n".join(f"{n.name} = {n.op}({', '.join(n.input)})" for n in graph.node)
