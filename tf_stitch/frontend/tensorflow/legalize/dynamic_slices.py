"""Slices whose begin is a value of the graph: where a decoder reads and writes its cache.

Each axis that is cut is looked up by position, so a begin costs an addition an element and no kernel of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.node_context import Check, NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.position_masks import offsets_from, within
from tf_stitch.ir.types import Dim


def take(b: Builder, x: Node, axis: int, positions: Node) -> Node:
    """Elements of an axis by position (rank 1). One outside is an error on a CPU and reads as zero on a GPU."""
    others = [dim for a, dim in enumerate(x.type.shape) if a != axis]
    if all(dim == 1 for dim in others):  # as it lies in memory
        taken = b.op(K.GATHER, b.reshape(x, (x.type.shape[axis], *others)), positions)
        return b.reshape(taken, tuple(positions.type.shape[0] if a == axis else 1 for a in range(x.type.rank)))
    front = [axis] + [a for a in range(x.type.rank) if a != axis]
    taken = b.op(K.GATHER, b.transpose(x, front), positions)
    return b.transpose(taken, [front.index(a) for a in range(x.type.rank)])


def element(b: Builder, vector: Node, entry: int) -> Node:
    """One element of a vector, as a vector."""
    return b.slice(vector, [entry], [1], (1,))


@legalize("XlaDynamicSlice")
def xla_dynamic_slice(ctx: NodeContext) -> Node:
    """The slice starts where it still fits: begins are clamped (xla/service/hlo_evaluator.cc, DynamicSlice)."""
    b, x, begins = ctx.b, ctx.value(0), ctx.value(1)
    for axis, size in enumerate(ctx.dims(2, "the size of the slice")):
        dim = x.type.shape[axis]
        if size != dim:
            x = take(b, x, axis, _after(b, _clamped(b, begins, axis, _extent(dim) - _extent(size)), size))
    return x


@legalize("XlaDynamicUpdateSlice")
def xla_dynamic_update_slice(ctx: NodeContext) -> Node:
    """The first operand with the second at a begin, clamped as a slice's (hlo_evaluator.cc, DynamicUpdateSlice)."""
    b, x, update, begins = ctx.b, ctx.value(0), ctx.value(1), ctx.value(2)
    if update.type.rank != x.type.rank:
        raise UnsupportedError(f"an update of rank {update.type.rank} in {x.type.rank} axes: an error at run time")
    inside: Node | None = None
    for axis, (dim, size) in enumerate(zip(x.type.shape, update.type.shape, strict=True)):
        if size == dim:
            continue
        if _extent(size) > _extent(dim):
            raise UnsupportedError(f"an update of {size} in an axis of {dim}: an error at run time")
        if size == 0:
            return x
        begin = _clamped(b, begins, axis, _extent(dim) - _extent(size))
        at = offsets_from(b, dim, begin)
        here = b.reshape(within(b, at, _extent(size)), tuple(dim if a == axis else 1 for a in range(x.type.rank)))
        inside = here if inside is None else b.op(K.AND, inside, here)
        if size != 1:  # an axis of one is broadcast
            last = b.scalar_like(_extent(size) - 1, at)
            update = take(b, update, axis, b.minimum(b.maximum(at, b.scalar_like(0, at)), last))
    return update if inside is None else b.select(inside, b.broadcast(update, x.type.shape), x)


def sliced_at(ctx: NodeContext, x: Node, fixed: Sequence[Dim | None], sizes: tuple[Dim, ...]) -> Node:
    """A slice that begins at the node's second input, and has to lie inside: one that does not is an error
    (core/kernels/slice_op.cc).

    Args:
        fixed: begins, as far as they are known.
    """
    b, begins = ctx.b, ctx.value(1)
    for axis, (first, dim, size) in enumerate(zip(fixed, x.type.shape, sizes, strict=True)):
        if first == 0 and size == dim:
            continue
        begin = element(b, begins, axis)
        has_to_be_within(ctx, 1, begin, size, dim)
        x = take(b, x, axis, _after(b, begin, size))
    return x


def has_to_be_within(ctx: NodeContext, number: int, begin: Node, size: Dim, dim: Dim) -> None:
    """Notes for GPUs, where no kernel raises, that `size` elements from `begin` on have to lie within an axis.

    Args:
        number: the node's input that `begin`, a vector of one element, comes from.
    """
    b, dtype = ctx.b, begin.type.dtype
    last = b.sub(b.extent((dim,), dtype), b.extent((size,), dtype))
    inside = b.op(K.AND, b.op(K.GREATER_EQUAL, begin, b.scalar_like(0, begin)), b.op(K.LESS_EQUAL, begin, last))
    ctx.checks.append(Check(ctx.operands[number].tensor, b.reshape(inside, ())))


def _after(b: Builder, begin: Node, size: Dim) -> Node:
    return b.add(b.iota((size,), 0, begin.type.dtype), begin)


def _clamped(b: Builder, begins: Node, axis: int, most: int) -> Node:
    begin = element(b, begins, axis)
    return b.minimum(b.maximum(begin, b.scalar_like(0, begin)), b.scalar_like(most, begin))


def _extent(dim: Dim) -> int:
    if not isinstance(dim, int):
        raise UnsupportedError("a dynamic slice of an axis of a size that is decided at run time")
    return dim
