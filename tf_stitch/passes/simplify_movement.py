"""Movement ops that undo or repeat each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.matrices import exchanges_last
from tf_stitch.ir.op_attrs import AxisAttrs, DotAttrs, ShapeAttrs, SliceAttrs, TransposeAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.types import Dim, Shape
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.rewriter import rewrite


@dataclass(frozen=True)
class SimplifyMovement:
    """Reshape of reshape, transpose of transpose, transposes that undo each other, slice of slice, slice of one operand
    of a concat, movement that moves nothing, casts to the same type; matmuls read transposed matrices as they are
    stored."""

    name: str = "simplify_movement"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        return rewrite(graph, (_no_movement, _reshape_of_reshape, _transpose_of_transpose, _transposed_back,
                               _slice_of_slice, _slice_of_concat, _broadcast_of_broadcast, _broadcast_operand,
                               _dot_of_transpose))


def _no_movement(node: Node) -> Node | None:
    if node.kind in (OpKind.RESHAPE, OpKind.BROADCAST, OpKind.CAST) and node.type == node.operands[0].type:
        return node.operands[0]
    if node.kind is OpKind.TRANSPOSE and list(cast(TransposeAttrs, node.attrs).perm) == list(range(node.type.rank)):
        return node.operands[0]
    return None


def _reshape_of_reshape(node: Node) -> Node | None:
    if node.kind is not OpKind.RESHAPE or node.operands[0].kind is not OpKind.RESHAPE:
        return None
    return Builder(node.loc).reshape(node.operands[0].operands[0], cast(ShapeAttrs, node.attrs).shape)


def _broadcast_of_broadcast(node: Node) -> Node | None:
    if node.kind is not OpKind.BROADCAST or node.operands[0].kind is not OpKind.BROADCAST:
        return None
    return Builder(node.loc).broadcast(node.operands[0].operands[0], cast(ShapeAttrs, node.attrs).shape)


def _transpose_of_transpose(node: Node) -> Node | None:
    inner = node.operands[0] if node.operands else None
    if node.kind is not OpKind.TRANSPOSE or inner is None or inner.kind is not OpKind.TRANSPOSE:
        return None
    outer_perm, inner_perm = cast(TransposeAttrs, node.attrs).perm, cast(TransposeAttrs, inner.attrs).perm
    return Builder(node.loc).transpose(inner.operands[0], [inner_perm[p] for p in outer_perm])


def _transposed_back(node: Node) -> Node | None:
    """Transposes that undo each other, between which axes of one element come or go: filters of a depthwise convolution
    that were turned for a library."""
    if not isinstance(node.attrs, TransposeAttrs) or node.operands[0].kind is not OpKind.RESHAPE:
        return None
    between, [inner] = node.operands[0], node.operands[0].operands
    if not isinstance(inner.attrs, TransposeAttrs):
        return None
    source, given = inner.operands[0], inner.type.shape
    if _longer_than_one(between.type.shape) != _longer_than_one(given):
        return None
    came_from = iter([axis for axis in inner.attrs.perm if source.type.shape[axis] != 1])
    at = [None if size == 1 else next(came_from) for size in between.type.shape]
    order = [axis for axis in (at[p] for p in node.attrs.perm) if axis is not None]
    return Builder(node.loc).reshape(source, node.type.shape) if order == sorted(order) else None


def _slice_of_slice(node: Node) -> Node | None:
    """A part of a part, of which axes of one element may have gone or come: one part of the whole. Several parts of a
    part would else share a kernel that copies that."""
    if not isinstance(node.attrs, SliceAttrs):
        return None
    inner = node.operands[0]
    if inner.kind is OpKind.RESHAPE:
        inner = inner.operands[0]
    part = node.operands[0].type.shape
    if not isinstance(inner.attrs, SliceAttrs) or _longer_than_one(part) != _longer_than_one(inner.type.shape):
        return None
    if any(size == 1 != kept for size, kept in zip(part, node.attrs.sizes, strict=True)):
        return None  # nothing of an axis of one element
    axes = iter([axis for axis, size in enumerate(part) if size != 1])
    begin, strides, sizes = list(inner.attrs.begin), list(inner.attrs.strides), list(inner.attrs.sizes)
    for axis, size in enumerate(inner.attrs.sizes):
        if size != 1:
            outer = next(axes)
            begin[axis] += strides[axis] * node.attrs.begin[outer]
            strides[axis] *= node.attrs.strides[outer]
            sizes[axis] = node.attrs.sizes[outer]
    b = Builder(node.loc)
    found = b.slice(inner.operands[0], begin, strides, tuple(sizes))
    return found if found.type == node.type else b.reshape(found, node.type.shape)


def _slice_of_concat(node: Node) -> Node | None:
    """What lies in one of its operands, as a number in a vector of them: what else is in there does not matter."""
    if not isinstance(node.attrs, SliceAttrs) or node.operands[0].kind is not OpKind.CONCAT:
        return None
    attrs, axis = node.attrs, cast(AxisAttrs, node.operands[0].attrs).axis
    size, first = attrs.sizes[axis], attrs.begin[axis]
    if not isinstance(size, int) or size == 0:
        return None
    last = first + (size - 1) * attrs.strides[axis]
    for operand in node.operands[0].operands:
        extent = operand.type.shape[axis]
        if not isinstance(extent, int):
            return None
        if min(first, last) >= 0 and max(first, last) < extent:
            begin = [first if a == axis else at for a, at in enumerate(attrs.begin)]
            if operand.type == node.type and not any(begin) and set(attrs.strides) == {1}:
                return operand
            return Builder(node.loc).slice(operand, begin, attrs.strides, attrs.sizes)
        first, last = first - extent, last - extent
    return None


def _longer_than_one(shape: Shape) -> list[Dim]:
    return [size for size in shape if size != 1]


def _broadcast_operand(node: Node) -> Node | None:
    """An element-wise op broadcasts by itself if another operand has the full shape."""
    if node.category is not Category.ELEMENTWISE or len(node.operands) < 2:
        return None
    for i, operand in enumerate(node.operands):
        others = [o for j, o in enumerate(node.operands) if j != i]
        if operand.kind is OpKind.BROADCAST and any(o.type.shape == node.type.shape for o in others):
            operands = (*node.operands[:i], operand.operands[0], *node.operands[i + 1:])
            return Builder(node.loc).op(node.kind, *operands)
    return None


def _dot_of_transpose(node: Node) -> Node | None:
    if not isinstance(node.attrs, DotAttrs):
        return None
    flags = [node.attrs.transpose_a, node.attrs.transpose_b]
    operands = list(node.operands)
    for i, operand in enumerate(operands):
        if exchanges_last(operand):
            operands[i], flags[i] = operand.operands[0], not flags[i]
    if operands == list(node.operands):
        return None
    return Builder(node.loc).dot(operands[0], operands[1], flags[0], flags[1])
