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
from tf_stitch.ir.matrices import MatrixLayout, contiguous, matrix_layout, row_bytes, terms_of, transposed_layout
from tf_stitch.ir.op_attrs import DotAttrs, SliceAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.strided_view import matrices_read, path_to
from tf_stitch.kernel_ir.nodes import Mode
from tf_stitch.libraries.call import BoundCall, Library, LibraryCall, in_memory
from tf_stitch.wire_format import MOST_BYTES, MOST_INT32, Choice, Flag, Nested, Number, Record

TYPES = {DType.F32: 1, DType.F64: 2, DType.BF16: 14, DType.F16: 19}
"""Element types of matmuls, as tensorflow.DataType numbers them."""

LAYOUT = Record("MatrixLayout", """\
How matrices [rows, cols] lie in memory: contiguous along the columns, or along the rows if `transposed`. Matrix i
begins at offset + i / group * step + i % group * group_step.""", (
    Flag("transposed"),
    Number("stride", "elements from one stored row to the next", 1, MOST_BYTES),
    Number("step", "elements from one group of matrices to the next", 0, MOST_BYTES),
    Number("group", "matrices of a group", 1, MOST_INT32),
    Number("group_step", "elements from one matrix of a group to the next", 0, MOST_BYTES),
    Number("offset", "elements before the first matrix", 0, MOST_BYTES)), ordered=True)

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
        """Bytes of a, b, the bias and the addend if there are any, and the result."""
        sizes = [_extent(self.batch, self.m, self.k, self.a), _extent(self.batch, self.k, self.n, self.b),
                 *[self.n] * self.bias, *[self.batch * self.m * self.n] * self.addend,
                 _extent(self.batch, self.m, self.n, self.out)]
        return [size * self.dtype.size for size in sizes]

    @property
    def nbytes(self) -> int:
        result = self.batch * self.m * self.n
        read = self.batch * self.k * (self.m + self.n) + self.n * self.bias + result * self.addend
        return (read + result) * self.dtype.size

    def at_hand(self) -> Gemm:
        """The call with plain numbers for sizes that change."""
        batch, m, n, k = (int(d) for d in (self.batch, self.m, self.n, self.k))
        a, b, out = (MatrixLayout(x.transposed, *map(int, (x.stride, x.step, x.group, x.group_step, x.offset)))
                     for x in (self.a, self.b, self.out))
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
        written = _groups(out, self.batch, self.m, self.n, self.out)
        written[...] = matmul.astype(self.dtype.numpy).reshape(written.shape)

    def __str__(self) -> str:
        stored = "".join("t" if layout.transposed else "n" for layout in (self.a, self.b))
        then = " + bias" * self.bias + " + addend" * self.addend
        then += f" {self.activation.name.lower()}" if self.activation else ""
        then += " transposed" if self.out.stride != self.n or self.out.group != 1 else ""
        return f"gemm {self.dtype.value} {self.batch}x[{self.m},{self.k}]x[{self.k},{self.n}] {stored}{then}"


def _extent(batch: int, rows: int, cols: int, layout: MatrixLayout) -> int:
    """Elements from the beginning of memory to the end of the last matrix."""
    lines, length = (cols, rows) if layout.transposed else (rows, cols)
    last = (batch // layout.group - 1) * layout.step + (layout.group - 1) * layout.group_step
    return layout.offset + last + (lines - 1) * layout.stride + length


def _groups(memory: NDArray[np.generic], batch: int, rows: int, cols: int, layout: MatrixLayout
            ) -> NDArray[np.generic]:
    """The matrices where they lie, [groups, matrices of a group, rows, cols]."""
    within = (1, layout.stride) if layout.transposed else (layout.stride, 1)
    strides = (layout.step, layout.group_step, *within)
    return as_strided(memory[layout.offset:], (batch // layout.group, layout.group, rows, cols),
                      [s * memory.itemsize for s in strides])


def _matrices(memory: NDArray[np.generic], batch: int, rows: int, cols: int, layout: MatrixLayout
              ) -> NDArray[np.generic]:
    return _groups(memory, batch, rows, cols, layout).reshape(batch, rows, cols)


def _evenly(path: Sequence[Node]) -> MatrixLayout | None:
    """How an operand lies, if its matrices do at equal distances, in what is reshaped and then transposed."""
    *reshapes, last = path
    if last.kind is not OpKind.TRANSPOSE or any(view.kind is not OpKind.RESHAPE for view in reshapes):
        return None
    return transposed_layout(last)


def _anyhow(path: Sequence[Node]) -> MatrixLayout | None:
    """How an operand lies, if its matrices do in groups at equal distances, be it in a slice."""
    if any(isinstance(view.attrs, SliceAttrs) and min(view.attrs.strides) < 1 for view in path):
        return None
    found = matrices_read(path)
    return None if found is None else matrix_layout(found[0], found[1].axes, 2, found[1].offset)


class GemmLibrary(Library):
    """Matmuls, and a bias, a sum, an activation or a transpose after them (ir.fused_matmuls).

    Args:
        strided: matrices may lie in groups (MatrixLayout), and in slices of larger tensors; else at equal distances
            from the beginning of a tensor on.
    """

    name = "gemm"
    record = GEMM_WORDS
    sources = ("op/gemm.cc", "cuda/cublas_lt.cc", "cuda/lt_library.cc", "cpu/host_gemm.cc",
               "cpu/host_blocks_baseline.cc", "cpu/host_blocks_avx2.cc", "cpu/host_blocks_avx512.cc")
    epilogue_types = (DType.F32, DType.F16, DType.BF16)

    def __init__(self, strided: bool = False) -> None:
        self._strided = strided

    def is_root(self, node: Node) -> bool:
        return node.kind is OpKind.DOT

    def extensions(self, root: Node, users: dict[Node, list[Node]], wanted: frozenset[Node]) -> Iterator[FusedMatmul]:
        return fused_matmuls(root, users, wanted, self._strided)

    def match(self, nodes: Sequence[Node]) -> FusedMatmul | None:
        return as_fused_matmul(nodes, self._strided)

    def reads(self, path: Sequence[Node]) -> bool:
        return self._layout(path) is not None

    def _layout(self, path: Sequence[Node]) -> MatrixLayout | None:
        if super().reads(path):
            return contiguous(path[-1].type.dims)
        return _anyhow(path) if self._strided else _evenly(path)

    def _operand(self, node: Node, transposed: bool, stored: Collection[Node]) -> tuple[Node, MatrixLayout]:
        """What lies in memory of an operand, and how its matrices lie there; `transposed`: the matmul exchanges the
        axes of the operand."""
        path = path_to(node, stored.__contains__)
        layout = self._layout(path) if path else contiguous(node.type.dims)
        assert layout is not None, "a view that no matmul can read has a kernel"
        return path[0].operands[0] if path else node, replace(layout, transposed=layout.transposed != transposed)

    def bind(self, fused: FusedMatmul, stored: Collection[Node]) -> BoundCall:
        matmul = fused.matmul
        assert isinstance(matmul.attrs, DotAttrs)
        *batch, m, n = matmul.type.dims
        (a, a_layout), (b, b_layout) = (
            self._operand(operand, transposed, stored) for operand, transposed
            in zip(matmul.operands, (matmul.attrs.transpose_a, matmul.attrs.transpose_b), strict=True))
        gemm = Gemm(matmul.type.dtype, math.prod(batch), m, n, terms_of(matmul), a_layout, b_layout, fused.layout,
                    fused.bias is not None, fused.addend is not None, fused.activation)
        read = (a, b, *(in_memory(x, stored) for x in fused.added))
        return BoundCall(gemm, fused.nodes, (*((x, Mode.READ) for x in read), (fused.result, Mode.WRITE)))

    def measured_us(self, root: Node, profile: DeviceProfile) -> float | None:
        *batch, m, n = (int(d) for d in root.type.dims)
        sizes = math.prod(batch), m, int(terms_of(root)), n
        return profile.matmul_us(root.type.dtype.value, sizes, row_bytes(root))


GEMM = GemmLibrary()
STRIDED_GEMM = GemmLibrary(strided=True)
"""Where blocks of ours compute matmuls, one matrix at a time (native/cpu/host_gemm.cc)."""
