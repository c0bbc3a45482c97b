"""Task splitting (AStitch section 3.3): few long reductions become many shorter ones and a second stage.

Deterministic, and more accurate than one long sum. Also separates reductions over axes that do not adjoin, so that
every reduction is of rows or of columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import ReduceAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.pass_manager import PassResult
from tf_stitch.transforms.rewriter import rewrite

_SPLITTABLE = (OpKind.SUM, OpKind.PROD, OpKind.MAX, OpKind.MIN, OpKind.ANY, OpKind.ALL)


@dataclass(frozen=True)
class SplitReductions:
    """Splits static reductions.

    Attributes:
        tasks: independent tasks that fill the device.
        shortest: elements that are worth a task of their own.
        column_tile: columns that one task of a column reduction covers.
        column_parts: partial sums of a column reduction that is split: blocks that walk over whole rows, when the
            sums are fused with reductions of the rows.
    """

    tasks: int
    shortest: int
    column_tile: int
    column_parts: int
    name: str = "split_reductions"

    def run(self, graph: TensorGraph) -> PassResult:
        return rewrite(graph, (_separate, self._split))

    def _split(self, node: Node) -> Node | None:
        if node.category is not Category.REDUCTION or node.kind not in _SPLITTABLE or not node.type.is_static:
            return None
        axes, x = cast(ReduceAttrs, node.attrs).axes, node.operands[0]
        length = math.prod(x.type.dims[a] for a in axes)
        first, last = axes[0], axes[-1]
        outer, inner = math.prod(x.type.dims[:first]), math.prod(x.type.dims[last + 1:])
        columns = last < x.type.rank - 1
        at_hand = outer * (math.ceil(inner / self.column_tile) if columns else 1)
        per_step = min(inner, self.column_tile) if columns else 1
        wanted = self.tasks // max(at_hand, 1)
        if columns and wanted > 1:
            wanted = self.column_parts // max(outer, 1)
        wanted = min(wanted, length * per_step // self.shortest, length // 4)
        parts = _divisor_near(length, wanted)
        if parts < 2 or _is_second_stage(node):
            return None
        b = Builder(node.loc)
        before = node.type.shape[:node.type.rank - (x.type.rank - 1 - last)]  # axes of 1 between reduced ones too
        # Between the stages a half-precision sum is not rounded.
        shape = (*before, parts, length // parts, *x.type.shape[last + 1:])
        split = b.cast(b.reshape(x, shape), node.type.dtype.compute)
        stage = len(before)
        return b.cast(b.reduce(node.kind, b.reduce(node.kind, split, [stage + 1]), [stage]), node.type.dtype)


def _is_second_stage(node: Node) -> bool:
    """Whether `node` combines the parts of a reduction that was split."""
    x = node.operands[0]
    if x.kind is not node.kind or cast(ReduceAttrs, x.attrs).axes != (cast(ReduceAttrs, node.attrs).axes[0] + 1,):
        return False
    source = x.operands[0].operands[0] if x.operands[0].kind is OpKind.CAST else x.operands[0]
    return source.kind is OpKind.RESHAPE


def _separate(node: Node) -> Node | None:
    """Axes that do not adjoin: the trailing run first, the rest after it."""
    if node.category is not Category.REDUCTION or node.kind not in _SPLITTABLE:
        return None
    axes = cast(ReduceAttrs, node.attrs).axes
    run = [axes[-1]]
    while run[0] - 1 in axes:
        run.insert(0, run[0] - 1)
    rest = [a for a in axes if a not in run]
    if not rest or node.operands[0].type.shape[rest[-1] + 1:run[0]] == (1,) * (run[0] - rest[-1] - 1):
        return None
    b = Builder(node.loc)
    return b.reduce(node.kind, b.reduce(node.kind, node.operands[0], run), rest)


def _divisor_near(length: int, wanted: int) -> int:
    """The largest divisor of `length` up to `wanted`, 1 if there is none worth it."""
    return next((d for d in range(wanted, 1, -1) if length % d == 0), 1)
