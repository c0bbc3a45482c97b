"""Cheaper forms of the same arithmetic, where the numbers allow them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import ConstantAttrs, ReduceAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import order
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.rewriter import rewrite

_SHARED = 8
"""Elements that divide by one number before its reciprocal is worth a node."""
_VIEWS = (OpKind.RESHAPE, OpKind.BROADCAST)


@dataclass(frozen=True)
class SimplifyAlgebra:
    """x / y, y the sum of a softmax, becomes x * (1 / y): one rounding more, as in TensorFlow's softmax kernel. The
    reciprocal of another number may be infinite or flushed to 0, and x / x would not be 1. x ** 2, ** 3 and ** 4 are
    multiplied out, with three roundings at most."""

    name: str = "simplify_algebra"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        return rewrite(graph, (_multiply_by_reciprocal, _multiply_by_itself))


def _multiply_by_reciprocal(node: Node) -> Node | None:
    if node.kind is not OpKind.DIV or not node.type.dtype.is_float or not node.type.is_static:
        return None
    x, y = node.operands
    source = y.operands[0] if y.kind is OpKind.BROADCAST else y
    few, many = source.type.numel, node.type.numel
    if (order(few)[0] >= order(many)[0] and few * _SHARED > many) or not _is_softmax_sum(source):
        return None
    b = Builder(node.loc)
    reciprocal = b.op(OpKind.RECIPROCAL, source)
    return b.mul(x, b.broadcast(reciprocal, y.type.shape) if source is not y else reciprocal)


def _multiply_by_itself(node: Node) -> Node | None:
    if node.kind is not OpKind.POW:
        return None
    x, exponent = node.operands[0], _behind_views(node.operands[1]).attrs
    if not isinstance(exponent, ConstantAttrs) or x.type != node.type:
        return None
    b, exponents = Builder(node.loc), np.unique(exponent.value.astype(np.float64))
    if exponents.tolist() == [2.0]:
        return b.square(x)
    if exponents.tolist() == [3.0]:
        return b.mul(b.square(x), x)
    return b.square(b.square(x)) if exponents.tolist() == [4.0] else None


def _is_softmax_sum(node: Node) -> bool:
    """Whether this is sum(exp(x - max(x))) over some axes: from 1 to the number of elements, or NaN."""
    total = _behind_views(node)
    exponential = total.operands[0] if total.kind is OpKind.SUM else total
    difference = exponential.operands[0] if exponential.kind is OpKind.EXP else exponential
    if total.kind is not OpKind.SUM or exponential.kind is not OpKind.EXP or difference.kind is not OpKind.SUB:
        return False
    x, most = difference.operands[0], _behind_views(difference.operands[1])
    return (most.kind is OpKind.MAX and most.operands[0] is x
            and cast(ReduceAttrs, most.attrs).axes == cast(ReduceAttrs, total.attrs).axes)


def _behind_views(node: Node) -> Node:
    while node.kind in _VIEWS:
        node = node.operands[0]
    return node
