"""Library calls of a region: what they compute, as data."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.nodes import Mode


class Epilogue(IntEnum):
    """What is done to a product before it is stored; the numbers are the native op's."""

    NONE = 0
    BIAS = 1
    BIAS_RELU = 2


@dataclass(frozen=True)
class Gemm:
    """`batch` row-major products [m, k] x [k, n] -> [m, n], one after the other in memory.

    Attributes:
        transpose_a, transpose_b: the operand is stored as [k, m] or [n, k].
        epilogue: with a bias, a vector of n is added to every row.
    """

    dtype: DType
    batch: int
    m: int
    n: int
    k: int
    transpose_a: bool
    transpose_b: bool
    epilogue: Epilogue = Epilogue.NONE

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * self.m * self.n * self.k

    @property
    def nbytes(self) -> int:
        """Bytes of both operands and the result, each once."""
        return self.dtype.size * self.batch * (self.m * self.k + self.k * self.n + self.m * self.n)

    def operand_bytes(self) -> list[int]:
        """Bytes of each argument: a, b, the bias if there is one, the result."""
        bias = [] if self.epilogue is Epilogue.NONE else [self.n]
        sizes = [self.batch * self.m * self.k, self.batch * self.k * self.n, *bias, self.batch * self.m * self.n]
        return [size * self.dtype.size for size in sizes]

    def __str__(self) -> str:
        stored = f"{'t' if self.transpose_a else 'n'}{'t' if self.transpose_b else 'n'}"
        tail = "" if self.epilogue is Epilogue.NONE else f" {self.epilogue.name.lower()}"
        return f"gemm {self.dtype.value} {self.batch}x[{self.m},{self.k}]x[{self.k},{self.n}] {stored}{tail}"


@dataclass(frozen=True)
class LibraryCall:
    """A product of the graph run by the device's library; `arguments` are a, b, the bias if any, the result."""

    gemm: Gemm
    node: Node
    arguments: tuple[tuple[Node, Mode], ...]


def library_call(node: Node, stored: Collection[Node]) -> LibraryCall:
    """The call for a static DOT node.

    Args:
        stored: values that kernels write: of an operand and what it is a view of, the first that exists in memory.
    """
    assert isinstance(node.attrs, DotAttrs)
    left, right = node.operands
    *batch, m, n = node.type.dims
    k = left.type.dims[-2 if node.attrs.transpose_a else -1]
    gemm = Gemm(node.type.dtype, math.prod(batch), m, n, k, node.attrs.transpose_a, node.attrs.transpose_b)
    return LibraryCall(gemm, node, ((_in_memory(left, stored), Mode.READ), (_in_memory(right, stored), Mode.READ),
                                    (node, Mode.WRITE)))


def _in_memory(node: Node, stored: Collection[Node]) -> Node:
    while node.kind is OpKind.RESHAPE and node not in stored:
        node = node.operands[0]
    return node


def multiply(gemm: Gemm, arguments: Sequence[NDArray[np.uint8]]) -> None:
    """The call by NumPy, on the bytes of its arguments: for tests and where there is no native op."""
    a, b, *bias, out = (memory.view(gemm.dtype.numpy) for memory in arguments)
    wide = gemm.dtype.compute.numpy
    left = a.reshape(gemm.batch, *((gemm.k, gemm.m) if gemm.transpose_a else (gemm.m, gemm.k))).astype(wide)
    right = b.reshape(gemm.batch, *((gemm.n, gemm.k) if gemm.transpose_b else (gemm.k, gemm.n))).astype(wide)
    product = np.matmul(left.swapaxes(1, 2) if gemm.transpose_a else left,
                        right.swapaxes(1, 2) if gemm.transpose_b else right)
    for vector in bias:
        product = product + vector.astype(wide)
    if gemm.epilogue is Epilogue.BIAS_RELU:
        product = np.maximum(product, 0)
    out[...] = product.reshape(-1).astype(gemm.dtype.numpy)
