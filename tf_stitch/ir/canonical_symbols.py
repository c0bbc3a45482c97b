"""Symbols named by their order in a graph, so that graphs that differ in names alone are equal."""

from __future__ import annotations

from dataclasses import replace

from tf_stitch.ir import op_attrs as oa
from tf_stitch.ir.graph import Node, TensorGraph, make_node
from tf_stitch.ir.types import Shape, Symbol, TensorType


def with_canonical_symbols(graph: TensorGraph) -> TensorGraph:
    """The graph with its symbols named s0, s1, ... as they occur."""
    names: dict[Symbol, Symbol] = {}

    def renamed(shape: Shape) -> Shape:
        return tuple(names.setdefault(d, Symbol(f"s{len(names)}")) if isinstance(d, Symbol) else d for d in shape)

    new: dict[Node, Node] = {}
    for node in graph.nodes():
        attrs = node.attrs
        if isinstance(attrs, oa.InputAttrs | oa.VariableAttrs | oa.LoopAttrs):
            attrs = replace(attrs, type=TensorType(attrs.type.dtype, renamed(attrs.type.shape)))
        elif isinstance(attrs, oa.ShapeAttrs | oa.ExtentAttrs | oa.IotaAttrs | oa.ScatterAttrs):
            attrs = replace(attrs, shape=renamed(attrs.shape))
        elif isinstance(attrs, oa.SliceAttrs):
            attrs = replace(attrs, sizes=renamed(attrs.sizes))
        new[node] = make_node(node.kind, [new[o] for o in node.operands], attrs, node.loc)
    return TensorGraph(graph.name, [(key, new[n]) for key, n in graph.outputs], [new[n] for n in graph.unread])
