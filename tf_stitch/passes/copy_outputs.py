"""Outputs that are another value as it is become copies that kernels make."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.ir.graph import Node, TensorGraph, make_node, view_of
from tf_stitch.ir.op_attrs import CastAttrs
from tf_stitch.ir.op_kinds import CALLED, OpKind
from tf_stitch.pass_manager import PassResult


@dataclass(frozen=True)
class CopyOutputs:
    """An output that is an input, or the same value as an output before it, becomes a cast to its own type, which a
    kernel computes beside what else it writes. Without it such outputs are copied one by one after all kernels, and
    each copy is enqueued by itself: bodies of loops have many, as each value that a gradient needs is pushed."""

    name: str = "copy_outputs"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        outputs: list[tuple[str, Node]] = []
        live_out: set[Node] = set()
        modified = False
        for key, node in graph.outputs:
            value = view_of(node) if view_of(node).category in CALLED else node  # as a call's result is live-out
            if node.kind is OpKind.INPUT or value in live_out:
                node, modified = make_node(OpKind.CAST, (node,), CastAttrs(node.type.dtype), node.loc), True
            elif node.kind is not OpKind.ASSIGN:
                live_out.add(value)
            outputs.append((key, node))
        return PassResult(TensorGraph(graph.name, outputs) if modified else graph, modified)
