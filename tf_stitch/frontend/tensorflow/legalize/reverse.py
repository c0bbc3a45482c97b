"""Axes that are read backwards, whole or in part. With a size that is known now that is a slice; else elements are
looked up by their numbers."""

from __future__ import annotations

from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.types import Dim, Shape


@legalize("ReverseV2")
def reverse(ctx: NodeContext) -> Node:
    return _reverse(ctx, set(ctx.axes(*ctx.ints(1, "the axes"), rank=ctx.value(0).type.rank)))


@legalize("Reverse")
def reverse_v1(ctx: NodeContext) -> Node:
    return _reverse(ctx, {a for a, on in enumerate(ctx.array(1, "the axes").flat) if on})


def _reverse(ctx: NodeContext, axes: set[int]) -> Node:
    x = ctx.value(0)
    shape = x.type.shape
    known = {axis: dim for axis in axes if isinstance(dim := shape[axis], int)}
    begin = [max(known.get(axis, 1) - 1, 0) for axis in range(len(shape))]
    if known:
        x = ctx.b.slice(x, begin, [-1 if axis in known else 1 for axis in range(len(shape))], shape)
    for axis in sorted(axes - set(known)):
        x = _reverse_axis(ctx, x, axis)
    return x


def _reverse_axis(ctx: NodeContext, x: Node, axis: int) -> Node:
    b, shape = ctx.b, x.type.shape
    rows = b.reshape(x, (ctx.product(shape[:axis], f"before{axis}"), *shape[axis:]))
    last = b.sub(b.extent((shape[axis],), DType.I64), b.constant(1, DType.I64))
    place = b.sub(last, _positions(b, rows, 1))
    return b.reshape(_look_up(b, rows, ctx.product(rows.type.shape[:2], f"to{axis}"), _positions(b, rows, 0), place),
                     shape)


@legalize("ReverseSequence")
def reverse_sequence(ctx: NodeContext) -> Node:
    """Element i of a sequence is the one at length - 1 - i where i < length, else itself. What has a length that cannot
    be is looked up out of range."""
    b, x, lengths = ctx.b, ctx.value(0), ctx.value(1)
    batch, sequence = ctx.attrs.integer("batch_dim"), ctx.attrs.integer("seq_dim")
    front = sorted((batch, sequence))
    order = front + [a for a in range(x.type.rank) if a not in front]
    rows = b.transpose(x, order)
    place, number = (_positions(b, rows, front.index(axis)) for axis in (sequence, batch))
    length = b.reshape(b.cast(lengths, DType.I64), _along(rows, front.index(batch)))
    mirrored = b.sub(b.sub(length, b.scalar_like(1, length)), place)
    taken = b.select(b.op(K.LESS, place, length), mirrored, place)
    longest = b.extent((x.type.shape[sequence],), DType.I64)
    fits = b.op(K.AND, b.op(K.GREATER_EQUAL, length, b.scalar_like(0, length)), b.op(K.LESS_EQUAL, length, longest))
    at = (taken, number) if sequence < batch else (number, taken)
    found = _look_up(b, rows, ctx.product(rows.type.shape[:2], "rows"), *at, fits)
    return b.transpose(found, [order.index(a) for a in range(len(order))])


def _positions(b: Builder, x: Node, axis: int) -> Node:
    """Along one of the first two axes of x: int64, [n, 1] or [1, n]."""
    return b.iota(_along(x, axis), axis, DType.I64)


def _along(x: Node, axis: int) -> Shape:
    return tuple(d if a == axis else 1 for a, d in enumerate(x.type.shape[:2]))


def _look_up(b: Builder, x: Node, count: Dim, row: Node, column: Node, fits: Node | None = None) -> Node:
    """x[row, column] of x [n, m, ...]; out of range where it does not fit.

    Args:
        count: n m.
        row, column: int64, of one shape together.
    """
    _, inner, *rest = x.type.shape
    at = b.add(b.mul(row, b.extent((inner,), DType.I64)), column)
    if fits is not None:
        at = b.select(fits, at, b.scalar_like(-1, at))
    return b.op(K.GATHER, b.reshape(x, (count, *rest)), at)
