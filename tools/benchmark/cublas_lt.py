"""Matmuls by cuBLASLt without TensorFlow: as native/cuda/cublas_lt.cc runs them, through ctypes and CuPy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.matrices import MatrixLayout
from tf_stitch.libraries.gemm import Gemm
from tools.benchmark.graph_nodes import node_us

# Numbers of cublasLt.h, as in native/cuda/cublas_lt.cc.
TRANSPOSE_A, TRANSPOSE_B = 3, 4
BATCH_COUNT, BATCH_OFFSET = 5, 6
PREFER_WORKSPACE, PREFER_REDUCTIONS, PREFER_ALIGNMENT = 1, 3, 5
REPRODUCIBLE, ALIGNMENT = 2 | 4, 16
TYPES = {DType.F32: 0, DType.F16: 2, DType.BF16: 14}
COMPUTE_32, COMPUTE_TF32, REAL_32 = 68, 77, 0
PROPOSALS = 16
WORKSPACE = 1 << 25
"""Bytes."""
COLD = 1 << 28
"""Bytes that no cache holds."""
MOST_MATRICES = 64


class Proposal(ctypes.Structure):
    """An algorithm, and whether it can be had."""

    _fields_ = (("algorithm", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int),
                ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4))  # fmt: skip


class CublasLt:
    """The library.

    Raises:
        cuda.pathfinder.DynamicLibNotFoundError: there is none.
    """

    def __init__(self) -> None:
        import cupy
        from cuda.pathfinder import load_nvidia_dynamic_lib  # comes with CuPy

        self._library = ctypes.CDLL(load_nvidia_dynamic_lib("cublasLt").abs_path)
        self.handle = ctypes.c_void_p()
        self("cublasLtCreate", ctypes.byref(self.handle))
        self.workspace = cupy.empty(WORKSPACE, cupy.uint8)

    def __call__(self, function: str, *arguments: Any) -> None:
        status = getattr(self._library, function)(*arguments)
        if status:
            raise RuntimeError(f"{function} failed with status {status}")

    def set(self, function: str, what: ctypes.c_void_p, attribute: int, value: Any) -> None:
        """One attribute of a descriptor."""
        self(function, what, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value)))


class LtMatmul:
    """A matmul as the library has it, in TF32 where elements are float32. A row-major matmul is the column-major
    matmul of the exchanged operands."""

    def __init__(self, lt: CublasLt, gemm: Gemm) -> None:
        self._lt, self._desc = lt, ctypes.c_void_p()
        compute = COMPUTE_TF32 if gemm.dtype is DType.F32 else COMPUTE_32
        lt("cublasLtMatmulDescCreate", ctypes.byref(self._desc), compute, REAL_32)
        for attribute, layout in ((TRANSPOSE_A, gemm.b), (TRANSPOSE_B, gemm.a)):
            lt.set("cublasLtMatmulDescSetAttribute", self._desc, attribute, ctypes.c_int32(layout.transposed))
        self._a, self._b, self._out = (self._layout(gemm, *stored) for stored in (
            (gemm.a, gemm.m, gemm.k), (gemm.b, gemm.k, gemm.n), (gemm.out, gemm.m, gemm.n)))  # fmt: skip

    def proposals(self) -> list[Proposal]:
        """The library's algorithms, its favourite first."""
        lt, preference = self._lt, ctypes.c_void_p()
        lt("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
        wishes = [(PREFER_WORKSPACE, ctypes.c_uint64(WORKSPACE)), (PREFER_REDUCTIONS, ctypes.c_uint32(REPRODUCIBLE)),
                  *((PREFER_ALIGNMENT + i, ctypes.c_uint32(ALIGNMENT)) for i in range(4))]  # fmt: skip
        for attribute, value in wishes:
            lt.set("cublasLtMatmulPreferenceSetAttribute", preference, attribute, value)
        found, count = (Proposal * PROPOSALS)(), ctypes.c_int()
        lt("cublasLtMatmulAlgoGetHeuristic", lt.handle, self._desc, self._b, self._a, self._out, self._out, preference,
           PROPOSALS, found, ctypes.byref(count))  # fmt: skip
        lt("cublasLtMatmulPreferenceDestroy", preference)
        return [proposal for proposal in found[:count.value] if proposal.state == 0]

    def call(self, proposal: Proposal, a: int, b: int, out: int) -> Callable[[], None]:
        """A call that enqueues the matmul on CuPy's stream; operands and result by address."""
        import cupy

        lt, one, zero = self._lt, ctypes.c_float(1), ctypes.c_float(0)
        x, w, y = (ctypes.c_void_p(address) for address in (a, b, out))
        workspace, size = ctypes.c_void_p(lt.workspace.data.ptr), ctypes.c_size_t(WORKSPACE)

        def enqueue() -> None:
            stream = ctypes.c_void_p(cupy.cuda.get_current_stream().ptr)
            lt("cublasLtMatmul", lt.handle, self._desc, ctypes.byref(one), w, self._b, x, self._a, ctypes.byref(zero),
               y, self._out, y, self._out, ctypes.byref(proposal), workspace, size, stream)  # fmt: skip

        return enqueue

    def _layout(self, gemm: Gemm, stored: MatrixLayout, rows: int, cols: int) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        fast, slow = (rows, cols) if stored.transposed else (cols, rows)
        self._lt("cublasLtMatrixLayoutCreate", ctypes.byref(made), TYPES[gemm.dtype], ctypes.c_uint64(fast),
                 ctypes.c_uint64(slow), ctypes.c_int64(stored.stride))  # fmt: skip
        if gemm.batch > 1:
            for attribute, value in ((BATCH_COUNT, ctypes.c_int32(gemm.batch)),
                                     (BATCH_OFFSET, ctypes.c_int64(stored.step))):  # fmt: skip
                self._lt.set("cublasLtMatrixLayoutSetAttribute", made, attribute, value)
        return made


def matmul(dtype: DType, sizes: tuple[int, int, int, int], transpose_b: bool) -> Gemm:
    """batch matmuls [m, k] x [k, n], the second matrix stored as [n, k] if it is transposed."""
    batch, m, k, n = sizes
    b = MatrixLayout(transpose_b, k if transpose_b else n, k * n)
    return Gemm(dtype, batch, m, n, k, MatrixLayout(False, k, m * k), b, MatrixLayout(False, n, m * n))


class Operands:
    """Arrays of a matmul on the device; matrices enough that no cache holds them, as those of a model's step."""

    def __init__(self, gemm: Gemm) -> None:
        import cupy

        stored = (gemm.n, gemm.k) if gemm.b.transposed else (gemm.k, gemm.n)
        random = cupy.random.RandomState(0)
        self.x, w = (random.standard_normal((gemm.batch, *dims), dtype=cupy.float32).astype(gemm.dtype.numpy)
                     for dims in ((gemm.m, gemm.k), stored))  # fmt: skip
        self.matrices = [w, *(w.copy() for _ in range(min(COLD // w.nbytes, MOST_MATRICES - 1)))]
        self.y = cupy.empty((gemm.batch, gemm.m, gemm.n), gemm.dtype.numpy)
        self._transposed = gemm.b.transposed

    @cached_property
    def _want(self) -> Any:
        x, w = self.x.astype("float64"), self.matrices[0].astype("float64")
        return x @ (w.swapaxes(1, 2) if self._transposed else w)

    def error(self) -> float:
        """Of the result at hand, relative to the mean magnitude of what float64 gives."""
        return float(abs(self.y - self._want).max() / abs(self._want).mean())


def fastest_calls(lt: CublasLt, gemm: Gemm, operands: Operands) -> Sequence[Callable[[], None]]:
    """Calls with each matrix of the library's fastest kernel, found by trying as tf_stitch does."""
    called = LtMatmul(lt, gemm)

    def calls(proposal: Proposal) -> Sequence[Callable[[], None]]:
        x, y = operands.x.data.ptr, operands.y.data.ptr
        return [called.call(proposal, x, w.data.ptr, y) for w in operands.matrices]

    return calls(min(called.proposals(), key=lambda proposal: node_us(*calls(proposal), nodes=20, launches=3)))
