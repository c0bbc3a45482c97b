"""Sums of squared deviations over columns in one pass over the data instead of two.

sum((x - mean)^2) = sum(c^2) - sum(c)^2 / n with c = x - s, for any s. With s a row of x itself the two terms do not
cancel: they differ by n * (mean - s)^2, which is a few times the sum for all but freak rows (Chan, Golub and LeVeque,
"Algorithms for computing the sample variance", the shifted form).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import ConstantAttrs, ReduceAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.rewriter import rewrite


@dataclass(frozen=True)
class SinglePassVariance:
    """Applies to float32 reductions that keep the last axis, of `shortest` rows or more: rows of other reductions stay
    at hand between passes, so they gain nothing."""

    shortest: int = 64
    name: str = "single_pass_variance"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        return rewrite(graph, (self._rewrite,))

    def _rewrite(self, node: Node) -> Node | None:
        if node.kind is not OpKind.SUM or node.type.dtype is not DType.F32 or not node.operands[0].type.is_static:
            return None
        axes, squares = cast(ReduceAttrs, node.attrs).axes, node.operands[0]
        if squares.kind is not OpKind.MUL or squares.operands[0] is not squares.operands[1]:
            return None
        difference, rank = squares.operands[0], squares.type.rank
        if difference.kind is not OpKind.SUB or rank - 1 in axes:
            return None
        count = math.prod(squares.type.dims[a] for a in axes)
        if count < self.shortest:
            return None
        one, other = difference.operands  # TensorFlow's optimizer sorts those of SquaredDifference by name
        x = next((x for x, mean in ((one, other), (other, one))
                  if x.type == squares.type and _is_mean(mean, x, axes, count)), None)
        if x is None:
            return None
        b = Builder(node.loc)
        sizes = tuple(1 if a in axes else d for a, d in enumerate(x.type.dims))
        shifted = b.sub(x, b.slice(x, (0,) * rank, (1,) * rank, sizes))
        total, squared = b.sum(shifted, axes), b.sum(b.square(shifted), axes)
        # total^2 would be infinite long before the sum of squares is; total * (total / n) is not before that.
        correction = b.mul(total, b.mul(total, b.scalar_like(1.0 / count, total)))
        result = b.maximum(b.sub(squared, correction), b.scalar_like(0, squared))
        # Squares of finite numbers that are too large are infinite, and no infinity less another.
        too_large = b.op(OpKind.AND, b.op(OpKind.IS_INF, squared), b.op(OpKind.IS_FINITE, total))
        return b.select(too_large, squared, result)


def _is_mean(node: Node, x: Node, axes: tuple[int, ...], count: int) -> bool:
    """Whether `node` is the mean of x over `axes`, up to movement of its elements in order."""
    while node.kind in (OpKind.RESHAPE, OpKind.BROADCAST):
        node = node.operands[0]
    if node.kind not in (OpKind.DIV, OpKind.MUL):
        return False
    total, factor = node.operands
    while total.kind is OpKind.RESHAPE:
        total = total.operands[0]
    if total.kind is not OpKind.SUM or total.operands[0] is not x or cast(ReduceAttrs, total.attrs).axes != axes:
        return False
    if not isinstance(factor.attrs, ConstantAttrs) or factor.attrs.value.size != 1:
        return False
    value = float(factor.attrs.value.reshape(-1)[0])
    return math.isclose(value, count if node.kind is OpKind.DIV else 1.0 / count, rel_tol=1e-6)
