"""Cheaper forms of the same arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import order
from tf_stitch.pass_manager import PassResult
from tf_stitch.transforms.rewriter import rewrite

_SHARED = 8
"""Elements that divide by one number before its reciprocal is worth a node."""


@dataclass(frozen=True)
class SimplifyAlgebra:
    """x / y, y much smaller than x, becomes x * (1 / y): one rounding more, as in TensorFlow's softmax kernel."""

    name: str = "simplify_algebra"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        return rewrite(graph, (_multiply_by_reciprocal,))


def _multiply_by_reciprocal(node: Node) -> Node | None:
    if node.kind is not OpKind.DIV or not node.type.dtype.is_float or not node.type.is_static:
        return None
    x, y = node.operands
    source = y.operands[0] if y.kind is OpKind.BROADCAST else y
    few, many = source.type.numel, node.type.numel
    if source.kind is OpKind.CONSTANT or (order(few)[0] >= order(many)[0] and few * _SHARED > many):
        return None
    b = Builder(node.loc)
    reciprocal = b.op(OpKind.RECIPROCAL, source)
    return b.mul(x, b.broadcast(reciprocal, y.type.shape) if source is not y else reciprocal)
