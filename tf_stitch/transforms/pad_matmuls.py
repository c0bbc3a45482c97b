"""Matmuls whose rows do not begin at multiples of 16 bytes, on zeros added to them: tensor cores are fed by wide copies
that begin there, and a library's kernels without these take several times as long. A vocabulary of 50,257 words or 197
patches of an image make such rows. What computes an operand writes the zeros; what reads the result leaves them out.
Source: PyTorch's Inductor pads such operands (pad_mm.py), XLA does for cuBLAS (cublas_pad_for_gemms.cc)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.matrices import ROW_BYTES, terms_of
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.pass_manager import PassResult
from tf_stitch.transforms.rewriter import replace_chosen

_Made: TypeAlias = dict[tuple[Node, tuple[int, ...]], Node]
"""Matrices, and rows and columns added to them."""


@dataclass(frozen=True)
class PadMatmuls:
    """Pads matmuls.

    Attributes:
        chosen: which matmuls of a graph, of those that `padded` takes.
    """

    chosen: Callable[[TensorGraph], Collection[Node]]
    name: str = "pad_matmuls"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        made: _Made = {}
        return replace_chosen(graph, self.chosen(graph), lambda matmul: padded(matmul, made))


def padded(matmul: Node, made: _Made | None = None) -> Node:
    """The value of a static matmul that is not aligned, from one that is.

    Args:
        made: matrices with zeros so far: one serves all matmuls that read it.
    """
    made = {} if made is None else made
    assert isinstance(matmul.attrs, DotAttrs)
    (rows, terms, columns), (a, b) = _added(matmul), matmul.operands
    transposed = matmul.attrs.transpose_a, matmul.attrs.transpose_b
    a = _with_zeros(a, (terms, rows) if transposed[0] else (rows, terms), made)
    b = _with_zeros(b, (columns, terms) if transposed[1] else (terms, columns), made)
    builder = Builder(matmul.loc)
    dot, dims = builder.dot(a, b, *transposed), matmul.type.dims
    return dot if dot.type.dims == dims else builder.slice(dot, [0] * len(dims), [1] * len(dims), dims)


def _added(matmul: Node) -> tuple[int, int, int]:
    """Rows, terms and columns to add."""
    assert isinstance(matmul.attrs, DotAttrs)
    m, n = matmul.type.dims[-2:]
    k = terms_of(matmul)
    unit = ROW_BYTES // matmul.type.dtype.size
    rows = -m % unit if matmul.attrs.transpose_a else 0
    terms = 0 if matmul.attrs.transpose_a and not matmul.attrs.transpose_b else -k % unit
    columns = -n % unit
    return rows, terms, columns


def _with_zeros(x: Node, added: tuple[int, int], made: _Made) -> Node:
    """A matrix with rows and columns added."""
    if added == (0, 0):
        return x
    if (x, added) not in made:
        builder, outer = Builder(x.loc), [0] * (x.type.rank - 2)
        zero = builder.constant(0, x.type.dtype)
        made[x, added] = builder.pad(x, zero, [0] * x.type.rank, [*outer, *added])
    return made[x, added]
