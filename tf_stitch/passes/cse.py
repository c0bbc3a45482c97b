"""Common subexpressions become one node."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.ir.graph import Node, TensorGraph, with_operands
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.pass_manager import PassResult

_KEEP = (OpKind.ASSIGN,)


@dataclass(frozen=True)
class EliminateCommonSubexpressions:
    """Nodes of equal kind, attributes and operands are merged; the first one's name stays."""

    name: str = "cse"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        new: dict[Node, Node] = {}
        seen: dict[object, Node] = {}
        modified = False
        for node in graph.nodes():
            operands = tuple(new[o] for o in node.operands)
            key = (node.kind, operands, node.attrs)
            if node.kind in _KEEP:
                new[node] = with_operands(node, operands)
            elif key in seen:
                new[node], modified = seen[key], True
            else:
                new[node] = seen[key] = with_operands(node, operands)
        return PassResult(TensorGraph(graph.name, [(k, new[n]) for k, n in graph.outputs]), modified)
