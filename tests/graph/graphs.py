"""Small TensorFlow graphs in a line a node, for tests of what edits them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def placed(text: str, devices: str, types: Mapping[str, Sequence[int]]) -> GraphDef:
    """Args:
        devices: of each node, a process's number and a GPU's, or "c" for its CPU.
        types: of the data inputs of regions, by name.
    """
    graph = graph_of(text)
    for node, (task, device) in zip(graph.node, devices.split(), strict=True):
        node.device = f"/job:worker/replica:0/task:{task}/device:{'CPU:0' if device == 'c' else f'GPU:{device}'}"
        node.attr["Tin"].list.type.extend(types.get(node.name, []))
    return graph
