"""Masks along an axis that are true at some positions which follow each other: where a slice is written whose begin is
a value of the graph."""

from __future__ import annotations

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, view_of
from tf_stitch.ir.op_attrs import ConstantAttrs
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.types import Dim


def offsets_from(b: Builder, dim: Dim, begin: Node) -> Node:
    """Positions of an axis [dim], counted from `begin` [1] on."""
    return b.sub(b.iota((dim,), 0, begin.type.dtype), begin)


def within(b: Builder, offsets: Node, size: int) -> Node:
    """Whether positions are among the first `size`, as bools."""
    return b.op(K.AND, b.op(K.GREATER_EQUAL, offsets, b.scalar_like(0, offsets)),
                b.op(K.LESS_EQUAL, offsets, b.scalar_like(size - 1, offsets)))


def position_of(mask: Node) -> Node | None:
    """`begin` [1], if a mask is a reshaped `within` of one position; else None."""
    mask = view_of(mask)
    if mask.kind is not K.AND or {o.kind for o in mask.operands} != {K.GREATER_EQUAL, K.LESS_EQUAL}:
        return None
    offsets = mask.operands[0].operands[0]
    if any(o.operands[0] is not offsets or not _is_zero(o.operands[1]) for o in mask.operands):
        return None
    if offsets.kind is not K.SUB or offsets.operands[0].kind is not K.IOTA or offsets.operands[0].type.rank != 1:
        return None
    begin = offsets.operands[1]
    return begin if begin.type.shape == (1,) else None


def _is_zero(node: Node) -> bool:
    return isinstance(node.attrs, ConstantAttrs) and node.attrs.value.shape == () and not node.attrs.value
