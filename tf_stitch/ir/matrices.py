"""Matmuls of matrices: their sizes, and how their operands and results lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import DotAttrs, TransposeAttrs


def terms_of(matmul: Node) -> int:
    """How many terms a static matmul (DOT) sums for each element."""
    assert isinstance(matmul.attrs, DotAttrs)
    return matmul.operands[0].type.dims[-2 if matmul.attrs.transpose_a else -1]


@dataclass(frozen=True)
class MatrixLayout:
    """Where equal matrices [rows, cols] lie.

    Attributes:
        transposed: the elements of a column are neighbours, not those of a row.
        stride: elements from one row (of a transposed one: column) to the next.
        step: elements from one matrix to the next.
    """

    transposed: bool
    stride: int
    step: int


def contiguous(dims: tuple[int, ...]) -> MatrixLayout:
    """Matrices [..., rows, cols] one after the other."""
    return MatrixLayout(False, dims[-1], dims[-2] * dims[-1])


def transposed_layout(node: Node) -> MatrixLayout | None:
    """How the value of a static TRANSPOSE lies in the memory of its operand, as matrices; None if it is not as a
    library reads them: one of the last two axes without gaps, the others at equal distances."""
    assert isinstance(node.attrs, TransposeAttrs)
    if node.type.rank < 2:
        return None
    strides = contiguous_strides(node.operands[0].type.dims)
    return matrix_layout(node.type.dims, [strides[axis] for axis in node.attrs.perm])


def transposed_result(node: Node) -> MatrixLayout | None:
    """How the operand of a static TRANSPOSE lies in the memory of its result, as matrices with rows; None as above."""
    assert isinstance(node.attrs, TransposeAttrs)
    if node.type.rank < 2:
        return None
    strides = contiguous_strides(node.type.dims)
    perm = node.attrs.perm
    layout = matrix_layout(node.operands[0].type.dims, [strides[perm.index(axis)] for axis in range(len(perm))])
    return None if layout is None or layout.transposed else layout


def matrix_layout(dims: tuple[int, ...], strides: Sequence[int]) -> MatrixLayout | None:
    """How matrices of these dims and strides lie; None if none of the last two axes is without gaps, or the others are
    at unequal distances."""
    step = count = 1
    for dim, stride in reversed(list(zip(dims[:-2], strides[:-2], strict=True))):
        if dim == 1:
            continue
        if count == 1:
            step = stride
        elif stride != step * count:
            return None
        count *= dim
    rows, cols = dims[-2:]
    if strides[-1] == 1:
        return MatrixLayout(False, cols if rows == 1 else strides[-2], step)
    return MatrixLayout(True, rows if cols == 1 else strides[-1], step) if strides[-2] == 1 else None


def contiguous_strides(dims: tuple[int, ...]) -> list[int]:
    """Elements between neighbours along each axis of what lies without gaps."""
    strides = [1] * len(dims)
    for axis in reversed(range(len(dims) - 1)):
        strides[axis] = strides[axis + 1] * dims[axis + 1]
    return strides
