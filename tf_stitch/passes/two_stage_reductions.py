"""Task splitting (AStitch section 3.3): few long reductions become many shorter ones and a second stage.

Deterministic, and more accurate than one long sum. Also separates reductions over axes that do not adjoin, so that
every reduction is of rows or of columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.ir.op_attrs import ReduceAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim, ceil_div, divides, divisors
from tf_stitch.ir.types import TensorType
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.rewriter import rewrite

FEW_TERMS = 16
"""Of a part: with fewer the parts' sums are much of what is read, which is worth it where parts are few tasks."""
VECTOR = 4
"""Elements of a vector access: parts are whole vectors where possible."""
_SPLITTABLE = (OpKind.SUM, OpKind.PROD, OpKind.MAX, OpKind.MIN, OpKind.ANY, OpKind.ALL)


_NEUTRAL = {OpKind.SUM: 0, OpKind.PROD: 1, OpKind.MAX: -math.inf, OpKind.MIN: math.inf, OpKind.ANY: False,
            OpKind.ALL: True}


@dataclass(frozen=True)
class TwoStageReductions:
    """Splits static reductions.

    Attributes:
        tasks: independent tasks that fill the device.
        shortest: elements that are worth a task of their own.
        column_tile: columns that one task of a column reduction covers.
        column_parts: partial sums of a column reduction that is split: blocks that walk over whole rows, when the
            sums are fused with reductions of the rows.
        longest_part: elements of a row that one task can keep at hand; a row that is split has no longer parts.
        shared: lengths of rows, from and up to, that blocks share instead, where the elements are needed again beside
            the result: each block keeps its part (families.row.propose.split_rows).
        pad: lengthen a reduction whose length has no divisor to split by, with its neutral element.
    """

    tasks: int
    shortest: int
    column_tile: int
    column_parts: int
    longest_part: int
    pad: bool = False
    shared: tuple[int, int] = (0, 0)
    name: str = "two_stage_reductions"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        kept = self._shared_rows(graph) if self.shared[1] else set()

        def split(node: Node) -> Node | None:
            return None if node in kept else self._split(node)

        return rewrite(graph, (separate, self._split_softmax, split))

    def _shared_rows(self, graph: TensorGraph) -> set[Node]:
        """Reductions of rows that stay whole."""
        nodes = graph.nodes()
        users = users_of(nodes)
        return {n for n in nodes if n.category is Category.REDUCTION and n.type.is_static and _of_rows(n)
                and self.shared[0] <= n.operands[0].type.numel // max(n.type.numel, 1) <= self.shared[1]
                and _meets_elements(n, n.operands[0].type.numel, users)}

    def _split_softmax(self, node: Node) -> Node | None:
        """sum(exp(x - max x)), the maximum being split already: each part sums relative to its own maximum, so that a
        part is read once for both (online softmax, Milakov and Gimelshein)."""
        match = _split_maximum(node)
        if match is None:
            return None
        whole, parts = match
        split, stage = parts.operands[0], cast(ReduceAttrs, whole.attrs).axes[0]
        b = Builder(node.loc)
        dims = (*parts.type.shape[:stage + 1], 1, *parts.type.shape[stage + 1:])
        masked = b.op(OpKind.EQUAL, parts, b.scalar_like(-math.inf, parts))  # a part of -inf alone sums to 0
        shift = b.select(masked, b.scalar_like(0, parts), parts)
        sums = b.sum(b.exp(b.sub(split, b.reshape(shift, dims))), [stage + 1])
        kept = (*whole.type.shape[:stage], 1, *whole.type.shape[stage:])
        factor = b.exp(b.sub(parts, b.reshape(whole, kept)))
        return b.reshape(b.sum(b.mul(sums, factor), [stage]), node.type.shape)

    def parts(self, x: TensorType, axes: Sequence[int]) -> int:
        """Into how many parts reductions of `x` along adjoining axes are split; fewer than 2: they are not. Where a sum
        is padded the number need not divide its length."""
        dims = x.dims
        length = math.prod(dims[a] for a in axes)
        outer, inner = math.prod(dims[:axes[0]]), math.prod(dims[axes[-1] + 1:])
        columns = axes[-1] < x.rank - 1
        at_hand = outer * (ceil_div(inner, self.column_tile) if columns else 1)
        per_step = min(inner, self.column_tile) if columns else 1
        wanted = self.tasks // max(at_hand, 1)
        if columns and wanted > 1:
            wanted = min(self.column_parts // max(outer, 1), max(length // FEW_TERMS, 8 * wanted))
        # Few rows of many columns are layer norms of small batches: rather short parts than few blocks.
        shortest = self.shortest // 4 if columns and self.pad and inner >= 2 * self.column_tile else self.shortest
        wanted = min(wanted, length * per_step // shortest, length // 4)
        if not columns and wanted > 1:
            wanted = max(wanted, ceil_div(length, self.longest_part))
        if any(isinstance(d, SymbolicDim) for d in dims):  # then few kernels have to serve all sizes
            wanted = 1 << int(wanted).bit_length() >> 1
        parts = divisor_near(length, wanted, 1 if columns else VECTOR)
        prime = 4 * parts < wanted  # or nearly: no divisor to speak of
        return wanted if self.pad and prime and len(axes) == 1 and x.dtype.is_float else parts

    def _split(self, node: Node) -> Node | None:
        if node.category is not Category.REDUCTION or node.kind not in _SPLITTABLE or not node.type.is_static:
            return None
        axes, x = cast(ReduceAttrs, node.attrs).axes, node.operands[0]
        parts = self.parts(x.type, axes)
        if parts < 2 or _is_second_stage(node):
            return None
        b = Builder(node.loc)
        length, last = math.prod(x.type.dims[a] for a in axes), axes[-1]
        if not divides(parts, length):
            padded = ceil_div(length, parts) * parts
            missing = tuple(padded - length if a == axes[0] else 0 for a in range(x.type.rank))
            x = b.pad(x, b.constant(_NEUTRAL[node.kind], x.type.dtype), (0,) * x.type.rank, missing)
            length = padded
        before = node.type.shape[:node.type.rank - (x.type.rank - 1 - last)]  # axes of 1 between reduced ones too
        # Between the stages a half-precision sum is not rounded.
        shape = (*before, parts, length // parts, *x.type.shape[last + 1:])
        split = b.cast(b.reshape(x, shape), node.type.dtype.compute)
        stage = len(before)
        return b.cast(b.reduce(node.kind, b.reduce(node.kind, split, [stage + 1]), [stage]), node.type.dtype)


def _of_rows(node: Node) -> bool:
    """Whether a reduction is of trailing axes, of sizes that do not change."""
    attrs, dims = node.attrs, node.operands[0].type.dims
    return (isinstance(attrs, ReduceAttrs) and attrs.axes == tuple(range(attrs.axes[0], len(dims)))
            and not any(isinstance(d, SymbolicDim) for d in dims))


def _meets_elements(node: Node, elements: int, users: dict[Node, list[Node]]) -> bool:
    """Whether the value of a reduction is used with as many elements as it reduces."""
    stack, seen = [node], set[Node]()
    while stack:
        for user in users[stack.pop()]:
            if user.type.is_static and user.type.numel == elements:
                return True
            if user not in seen and user.category in (Category.ELEMENTWISE, Category.MOVEMENT):
                seen.add(user)
                stack.append(user)
    return False


def _is_second_stage(node: Node) -> bool:
    """Whether `node` combines the parts of a reduction that was split."""
    x = node.operands[0]
    if x.kind is not node.kind or cast(ReduceAttrs, x.attrs).axes != (cast(ReduceAttrs, node.attrs).axes[0] + 1,):
        return False
    source = x.operands[0].operands[0] if x.operands[0].kind is OpKind.CAST else x.operands[0]
    return source.kind is OpKind.RESHAPE


def _split_maximum(node: Node) -> tuple[Node, Node] | None:
    """The maximum that a sum of exponentials is relative to, and the maxima of its parts, if it is split."""
    exponential = node.operands[0] if node.kind is OpKind.SUM else node
    difference = exponential.operands[0] if exponential.kind is OpKind.EXP else exponential
    if node.kind is not OpKind.SUM or difference.kind is not OpKind.SUB or exponential.kind is not OpKind.EXP:
        return None
    x, whole = difference.operands[0], difference.operands[1]
    while whole.kind in (OpKind.RESHAPE, OpKind.BROADCAST):
        whole = whole.operands[0]
    if whole.kind is not OpKind.MAX or whole.type.numel != node.type.numel or not _is_second_stage(whole):
        return None
    parts = whole.operands[0]
    if parts.operands[0].kind is not OpKind.RESHAPE or parts.operands[0].operands[0] is not x:
        return None
    reduced = cast(ReduceAttrs, node.attrs).axes
    together = x.type.dims[reduced[0]:reduced[-1] + 1]
    return (whole, parts) if math.prod(together) == math.prod(x.type.dims) // node.type.numel else None


def separate(node: Node) -> Node | None:
    """A reduction whose axes do not adjoin as two: the trailing run first, the rest after it. None for others."""
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


def divisor_near(length: int, wanted: int, multiple: int = 1) -> int:
    """The largest divisor of `length` up to `wanted` that leaves parts of whole vectors, or of any length; 1 if there
    is none."""
    found = divisors(length, wanted)
    return next((d for d in found if divides(multiple, length // d) and 2 * d > wanted), next(iter(found), 1))
