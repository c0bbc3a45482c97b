"""Library calls of a region: what they compute, as data."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tf_stitch.ir.activations import FUNCTIONS, Activation
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.fused_matmuls import FusedMatmul
from tf_stitch.ir.graph import Node
from tf_stitch.ir.matrices import MatrixLayout, contiguous, terms_of, transposed_layout
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.nodes import Mode

MOST_EXTENT = (1 << 31) - 1
"""Products of a call, rows, columns and terms of each."""


@dataclass(frozen=True)
class Gemm:
    """activation(a b + bias + addend) for `batch` products [m, k] x [k, n] -> [m, n].

    Attributes:
        a, b, out: where the matrices of the operands and the result lie.
        bias: a vector of n is added to every row.
        addend: [batch, m, n], contiguous, is added.
    """

    dtype: DType
    batch: int
    m: int
    n: int
    k: int
    a: MatrixLayout
    b: MatrixLayout
    out: MatrixLayout
    bias: bool = False
    addend: bool = False
    activation: Activation = Activation.NONE

    @property
    def nbytes(self) -> int:
        """Bytes of all arguments, each once."""
        return sum(self.operand_bytes())

    def operand_bytes(self) -> list[int]:
        """Bytes of each argument: a, b, the bias and the addend if there are any, the result."""
        result = self.batch * self.m * self.n
        sizes = [self.batch * self.m * self.k, self.batch * self.k * self.n, *[self.n] * self.bias,
                 *[result] * self.addend, result]
        return [size * self.dtype.size for size in sizes]

    def at_hand(self) -> Gemm:
        """The call with plain numbers for sizes that change."""
        batch, m, n, k = (int(d) for d in (self.batch, self.m, self.n, self.k))
        a, b, out = (MatrixLayout(x.transposed, int(x.stride), int(x.step)) for x in (self.a, self.b, self.out))
        return replace(self, batch=batch, m=m, n=n, k=k, a=a, b=b, out=out)

    def __str__(self) -> str:
        stored = "".join("t" if layout.transposed else "n" for layout in (self.a, self.b))
        then = " + bias" * self.bias + " + addend" * self.addend
        then += f" {self.activation.name.lower()}" if self.activation else ""
        then += " transposed" if self.out.stride != self.n else ""
        return f"gemm {self.dtype.value} {self.batch}x[{self.m},{self.k}]x[{self.k},{self.n}] {stored}{then}"


@dataclass(frozen=True)
class LibraryCall:
    """A product of the graph, and what follows it, run by the device's library; `arguments` are a, b, the bias and the
    addend if there are any, the result."""

    gemm: Gemm
    nodes: tuple[Node, ...]
    arguments: tuple[tuple[Node, Mode], ...]


def library_call(fused: FusedMatmul, stored: Collection[Node]) -> LibraryCall:
    """The call for a static product and what follows it.

    Args:
        stored: values that kernels and calls write: of an operand and what it is a view of, the first that exists in
            memory is read.
    """
    matmul = fused.matmul
    assert isinstance(matmul.attrs, DotAttrs)
    *batch, m, n = matmul.type.dims
    (a, a_layout), (b, b_layout) = (
        _operand(operand, transposed, stored) for operand, transposed
        in zip(matmul.operands, (matmul.attrs.transpose_a, matmul.attrs.transpose_b), strict=True))
    gemm = Gemm(matmul.type.dtype, math.prod(batch), m, n, terms_of(matmul), a_layout, b_layout, fused.layout,
                fused.bias is not None, fused.addend is not None, fused.activation)
    added = [_in_memory(x, stored) for x in (fused.bias, fused.addend) if x is not None]
    return LibraryCall(gemm, fused.nodes, (*((x, Mode.READ) for x in (a, b, *added)), (fused.result, Mode.WRITE)))


def _operand(node: Node, transposed: bool, stored: Collection[Node]) -> tuple[Node, MatrixLayout]:
    """What lies in memory of an operand, and how its matrices lie there; `transposed`: the product exchanges the axes
    of the operand."""
    layout = contiguous(node.type.dims)
    if node.kind is OpKind.TRANSPOSE and node not in stored:
        found = transposed_layout(node)
        assert found is not None, "a transpose that no product can read has a kernel"
        node, layout = node.operands[0], found
    return _in_memory(node, stored), replace(layout, transposed=layout.transposed != transposed)


def _in_memory(node: Node, stored: Collection[Node]) -> Node:
    while node.kind is OpKind.RESHAPE and node not in stored:
        node = node.operands[0]
    return node


def multiply(gemm: Gemm, arguments: Sequence[NDArray[np.uint8]]) -> None:
    """The call by NumPy, on the bytes of its arguments: for tests and where there is no native op."""
    wide = gemm.dtype.compute.numpy
    a, b, *added, out = (memory.view(gemm.dtype.numpy) for memory in arguments)
    terms = iter(added)
    matmul = np.matmul(_matrices(a, gemm.batch, gemm.m, gemm.k, gemm.a).astype(wide),
                        _matrices(b, gemm.batch, gemm.k, gemm.n, gemm.b).astype(wide))
    if gemm.bias:
        matmul = matmul + next(terms).astype(wide)
    if gemm.addend:
        matmul = matmul + next(terms).reshape(matmul.shape).astype(wide)
    if gemm.activation:
        matmul = FUNCTIONS[gemm.activation](matmul)
    _matrices(out, gemm.batch, gemm.m, gemm.n, gemm.out)[...] = matmul.astype(gemm.dtype.numpy)


def _matrices(memory: NDArray[np.generic], batch: int, rows: int, cols: int, layout: MatrixLayout
              ) -> NDArray[np.generic]:
    strides = (layout.step, 1, layout.stride) if layout.transposed else (layout.step, layout.stride, 1)
    return as_strided(memory, (batch, rows, cols), [s * memory.itemsize for s in strides])
