"""Matmuls of halves that are float8 times scales: of their own types they can be multiplied, which a library's calls do
in less time, where both lie by rows of terms."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import DotAttrs, TransposeAttrs
from tf_stitch.ir.op_kinds import OpKind

_HALVES = (DType.BF16, DType.F16)
_MOVES = (OpKind.RESHAPE, OpKind.TRANSPOSE)


@dataclass(frozen=True)
class Dequantised:
    """A half that is a float8 times a scale, or by one.

    Attributes:
        value: the float8, of any shape.
        scale: a half of one element; None: 1.
        divides: it is divided by the scale.
        moves: RESHAPE and TRANSPOSE from the float8 to the half, the last one last.
    """

    value: Node
    scale: Node | None
    divides: bool
    moves: tuple[Node, ...]


@dataclass(frozen=True)
class Float8Matmul:
    """A matmul [m, k] x [k, n] of halves that are both of that kind."""

    matmul: Node
    a: Dequantised
    b: Dequantised


def find_float8_matmul(node: Node) -> Float8Matmul | None:
    """A static DOT of two axes as one of float8; None if it is no such."""
    if node.kind is not OpKind.DOT or node.type.dtype not in _HALVES or node.type.rank != 2 or not node.type.is_static:
        return None
    a, b = map(_dequantised, node.operands)
    if a is None or b is None or DType.F8_E4M3FN not in (a.value.type.dtype, b.value.type.dtype):
        return None
    return Float8Matmul(node, a, b)


def as_float8(found: Float8Matmul) -> Node:
    """The matmul's value from float8, and transposes where they do not lie by rows of terms."""
    attrs = found.matmul.attrs
    assert isinstance(attrs, DotAttrs)
    builder = Builder(found.matmul.loc)
    a, b = _rows(found.a, attrs.transpose_a, builder), _rows(found.b, not attrs.transpose_b, builder)
    return builder.float8_dot(a, b, _scale(found.a, builder), _scale(found.b, builder), found.matmul.type.dtype)


def _dequantised(node: Node) -> Dequantised | None:
    moves: list[Node] = []
    node = _unmoved(node, moves)
    scale, divides = None, False
    if node.kind in (OpKind.MUL, OpKind.DIV):
        divides = node.kind is OpKind.DIV
        scaled, by = node.operands if divides or _one(node.operands[1]) is not None else node.operands[::-1]
        scale = _one(by)
        if scale is None or scaled.type != node.type:
            return None
        node = _unmoved(scaled, moves)
    if node.kind is not OpKind.CAST or node.type.dtype not in _HALVES:
        return None
    value = _unmoved(node.operands[0], moves)
    if not value.type.dtype.is_float8 or not all(move.type.is_static for move in (value, *moves)):
        return None
    return Dequantised(value, scale, divides, tuple(reversed(moves)))


def _unmoved(node: Node, moves: list[Node]) -> Node:
    """What a node is of; adds what moves it, the last one first."""
    while node.kind in _MOVES:
        moves.append(node)
        node = node.operands[0]
    return node


def _one(node: Node) -> Node | None:
    """The single element that a node repeats, if it does."""
    while node.type.is_static and node.type.numel != 1 and node.kind in (OpKind.BROADCAST, OpKind.RESHAPE):
        node = node.operands[0]
    return node if node.type.is_static and node.type.numel == 1 else None


def _rows(of: Dequantised, exchanged: bool, builder: Builder) -> Node:
    """The float8 as a matrix whose rows are of terms.

    Args:
        exchanged: the half has the terms of a result's element in a column.
    """
    moves, value = list(of.moves), of.value
    if exchanged and moves and moves[-1].kind is OpKind.TRANSPOSE:
        moves.pop()  # of two axes: back to rows of terms
        exchanged = False
    for move in moves:
        if isinstance(move.attrs, TransposeAttrs):
            value = builder.transpose(value, move.attrs.perm)
        else:
            value = builder.reshape(value, move.type.shape)
    return builder.transpose(value, (1, 0)) if exchanged else value


def _scale(of: Dequantised, builder: Builder) -> Node:
    """As a float32 of no axes, by which the float8 is multiplied."""
    if of.scale is None:
        return builder.constant(1, DType.F32)
    scale = builder.cast(builder.reshape(of.scale, ()), DType.F32)
    return builder.op(OpKind.DIV, builder.constant(1, DType.F32), scale) if of.divides else scale
