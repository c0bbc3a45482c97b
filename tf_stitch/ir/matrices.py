"""Matmuls of matrices: their sizes, and how their operands and results lie in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import DotAttrs, Float8DotAttrs, TransposeAttrs


def terms_of(matmul: Node) -> int:
    """How many terms a static matmul (DOT, FLOAT8_DOT) sums for each element."""
    if isinstance(matmul.attrs, Float8DotAttrs):
        return matmul.operands[0].type.dims[-1]
    assert isinstance(matmul.attrs, DotAttrs)
    return matmul.operands[0].type.dims[-2 if matmul.attrs.transpose_a else -1]


def is_in_kernel(node: Node) -> bool:
    """Whether a node is a matmul that was given to a kernel of ours."""
    return isinstance(node.attrs, DotAttrs) and node.attrs.in_kernel


def exchanges_last(node: Node) -> bool:
    """Whether a node exchanges the last two axes."""
    last = node.type.rank - 1
    return isinstance(node.attrs, TransposeAttrs) and node.attrs.perm == (*range(last - 1), last, last - 1)


ROW_BYTES = 16
"""Of which all rows should begin at multiples, for copies to be as wide as tensor cores want them."""


def row_bytes(matmul: Node) -> int:
    """The largest power of two, of ROW_BYTES at most, of which rows of a static matmul's operands and result begin at
    multiples."""
    return math.gcd(ROW_BYTES, *(x.type.dims[-1] * x.type.dtype.size for x in (*matmul.operands, matmul)))


@dataclass(frozen=True)
class MatrixLayout:
    """Where equal matrices [rows, cols] lie: at equal distances, or in groups at equal distances.

    Attributes:
        transposed: the elements of a column are neighbours, not those of a row.
        stride: elements from one row (of a transposed one: column) to the next.
        step: elements from one group of matrices to the next.
        group: matrices of a group.
        group_step: elements from one matrix of a group to the next.
        offset: elements before the first matrix.
    """

    transposed: bool
    stride: int
    step: int
    group: int = 1
    group_step: int = 0
    offset: int = 0


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


def matrix_layout(dims: tuple[int, ...], strides: Sequence[int], distances: int = 1, offset: int = 0
                  ) -> MatrixLayout | None:
    """How matrices of these dims and strides lie; None if none of the last two axes is without gaps, or the others are
    at more distances than this many (1 or 2)."""
    runs: list[tuple[int, int]] = []  # matrices at equal distances, and that distance; the last axes first
    for dim, stride in reversed(list(zip(dims[:-2], strides[:-2], strict=True))):
        if dim == 1:
            continue
        if runs and stride == runs[-1][0] * runs[-1][1]:
            runs[-1] = runs[-1][0] * dim, runs[-1][1]
        else:
            runs.append((dim, stride))
    if len(runs) > distances:
        return None
    step = runs[-1][1] if runs else 1
    group, group_step = runs[0] if len(runs) == 2 else (1, 0)
    rows, cols = dims[-2:]
    if strides[-1] == 1 or rows == cols == 1:  # an axis of one may have any stride
        return MatrixLayout(False, cols if rows == 1 else strides[-2], step, group, group_step, offset)
    if strides[-2] == 1:
        return MatrixLayout(True, rows if cols == 1 else strides[-1], step, group, group_step, offset)
    return None


def contiguous_strides(dims: tuple[int, ...]) -> list[int]:
    """Elements between neighbours along each axis of what lies without gaps."""
    strides = [1] * len(dims)
    for axis in reversed(range(len(dims) - 1)):
        strides[axis] = strides[axis + 1] * dims[axis + 1]
    return strides
