"""Matmuls by a library: cuBLASLt on GPUs, Eigen on CPUs (native/cuda/cublas_lt.cc, native/cpu/host_gemm.cc)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tf_stitch.device.profile import DeviceProfile
from tf_stitch.ir.activations import FUNCTIONS, Activation
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.fused_matmuls import FusedMatmul, as_fused_matmul, fused_matmuls
from tf_stitch.ir.graph import Node
from tf_stitch.ir.matrices import MatrixLayout, contiguous, terms_of, transposed_layout
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.nodes import Mode
from tf_stitch.libraries.call import BoundCall, Library, LibraryCall, in_memory
from tf_stitch.runtime.words import MOST_BYTES, MOST_INT32, Choice, Flag, Nested, Number, Record

TYPES = {DType.F32: 1, DType.F64: 2, DType.BF16: 14, DType.F16: 19}
"""Element types of matmuls, as tensorflow.DataType numbers them."""

LAYOUT = Record("MatrixLayout", """\
How matrices [rows, cols] lie in memory: contiguous along the columns, or along the rows if `transposed`.""", (
    Flag("transposed"),
    Number("stride", "elements from one stored row to the next", 1, MOST_BYTES),
    Number("step", "elements from one matrix to the next", 0, MOST_BYTES)), ordered=True)

GEMM_WORDS = Record("GemmSpec", """\
activation(a b + bias + addend): `batch` matmuls [m, k] x [k, n] -> [m, n], the bias a vector of n that is added to
every row, the addend [batch, m, n], contiguous. Arguments are a, b, the bias, the addend, those two if there are any,
and the result.""", (
    Number("type", "tensorflow::DataType", 1, 1000, "int"),
    *(Number(name, "", 1, MOST_INT32) for name in ("batch", "m", "n", "k")),
    Nested("a", "", LAYOUT), Nested("b", "", LAYOUT), Nested("out", "not transposed", LAYOUT),
    Flag("bias"), Flag("addend"), Choice("activation", "", Activation)), ordered=True)


@dataclass(frozen=True)
class Gemm(LibraryCall):
    """activation(a b + bias + addend) for `batch` matmuls [m, k] x [k, n] -> [m, n].

    Attributes:
        a, b, out: where the matrices of the operands and the result lie.
        bias: a vector of n is added to every row.
        addend: [batch, m, n], contiguous, is added.
    """

    record = GEMM_WORDS

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

    def too_large(self) -> str:
        if max(self.batch, self.m, self.n, self.k) <= MOST_INT32:
            return ""
        return f"{self} has an extent above {MOST_INT32}, which matrix libraries count with 32 bits"

    def members(self) -> Mapping[str, Any]:
        names = (field.name for field in GEMM_WORDS.fields if field.name != "type")
        return {"type": TYPES[self.dtype], **{name: getattr(self, name) for name in names}}

    @property
    def domain(self) -> tuple[int, int]:
        return self.batch * self.m, self.n

    def reference(self, arguments: Sequence[NDArray[np.uint8]]) -> None:
        wide = self.dtype.compute.numpy
        a, b, *added, out = (memory.view(self.dtype.numpy) for memory in arguments)
        terms = iter(added)
        matmul = np.matmul(_matrices(a, self.batch, self.m, self.k, self.a).astype(wide),
                            _matrices(b, self.batch, self.k, self.n, self.b).astype(wide))
        if self.bias:
            matmul = matmul + next(terms).astype(wide)
        if self.addend:
            matmul = matmul + next(terms).reshape(matmul.shape).astype(wide)
        if self.activation:
            matmul = FUNCTIONS[self.activation](matmul)
        _matrices(out, self.batch, self.m, self.n, self.out)[...] = matmul.astype(self.dtype.numpy)

    def __str__(self) -> str:
        stored = "".join("t" if layout.transposed else "n" for layout in (self.a, self.b))
        then = " + bias" * self.bias + " + addend" * self.addend
        then += f" {self.activation.name.lower()}" if self.activation else ""
        then += " transposed" if self.out.stride != self.n else ""
        return f"gemm {self.dtype.value} {self.batch}x[{self.m},{self.k}]x[{self.k},{self.n}] {stored}{then}"


def _operand(node: Node, transposed: bool, stored: Collection[Node]) -> tuple[Node, MatrixLayout]:
    """What lies in memory of an operand, and how its matrices lie there; `transposed`: the matmul exchanges the axes
    of the operand."""
    layout = contiguous(node.type.dims)
    if node.kind is OpKind.TRANSPOSE and node not in stored:
        found = transposed_layout(node)
        assert found is not None, "a transpose that no matmul can read has a kernel"
        node, layout = node.operands[0], found
    return in_memory(node, stored), replace(layout, transposed=layout.transposed != transposed)


def _matrices(memory: NDArray[np.generic], batch: int, rows: int, cols: int, layout: MatrixLayout
              ) -> NDArray[np.generic]:
    strides = (layout.step, 1, layout.stride) if layout.transposed else (layout.step, layout.stride, 1)
    return as_strided(memory, (batch, rows, cols), [s * memory.itemsize for s in strides])


class GemmLibrary(Library):
    """Matmuls, and a bias, a sum, an activation or a transpose after them (ir.fused_matmuls)."""

    name = "gemm"
    record = GEMM_WORDS
    sources = ("op/gemm.cc", "cuda/cublas_lt.cc", "cuda/lt_library.cc", "cpu/host_gemm.cc",
               "cpu/host_blocks_baseline.cc", "cpu/host_blocks_avx2.cc", "cpu/host_blocks_avx512.cc")

    def is_root(self, node: Node) -> bool:
        return node.kind is OpKind.DOT

    def extensions(self, root: Node, users: dict[Node, list[Node]], wanted: frozenset[Node]) -> Iterator[FusedMatmul]:
        return fused_matmuls(root, users, wanted)

    def match(self, nodes: Sequence[Node]) -> FusedMatmul | None:
        return as_fused_matmul(nodes)

    def bind(self, fused: FusedMatmul, stored: Collection[Node]) -> BoundCall:
        matmul = fused.matmul
        assert isinstance(matmul.attrs, DotAttrs)
        *batch, m, n = matmul.type.dims
        (a, a_layout), (b, b_layout) = (
            _operand(operand, transposed, stored) for operand, transposed
            in zip(matmul.operands, (matmul.attrs.transpose_a, matmul.attrs.transpose_b), strict=True))
        gemm = Gemm(matmul.type.dtype, math.prod(batch), m, n, terms_of(matmul), a_layout, b_layout, fused.layout,
                    fused.bias is not None, fused.addend is not None, fused.activation)
        read = (a, b, *(in_memory(x, stored) for x in fused.added))
        return BoundCall(gemm, fused.nodes, (*((x, Mode.READ) for x in read), (fused.result, Mode.WRITE)))

    def measured_us(self, root: Node, profile: DeviceProfile) -> float | None:
        *batch, m, n = (int(d) for d in root.type.dims)
        return profile.matmul_us(root.type.dtype.value, (math.prod(batch), m, int(terms_of(root)), n))


GEMM = GemmLibrary()
