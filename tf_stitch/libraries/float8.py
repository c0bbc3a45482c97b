"""Matmuls of float8 by cuBLASLt (native/cuda/cublas_lt.cc), each operand by a scale that lies in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tf_stitch.device.profile import DeviceProfile
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.matrices import terms_of
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.nodes import Mode
from tf_stitch.libraries.call import BoundCall, FusedNodes, Library, LibraryCall, OneNode, in_memory
from tf_stitch.wire_format import MOST_INT32, Number, Record

TYPES = {DType.BF16: 14, DType.F16: 19, DType.F8_E5M2: 24, DType.F8_E4M3FN: 25}
"""Element types, as tensorflow.DataType numbers them."""

WORDS = Record("Float8GemmSpec", """\
A matmul of float8, [m, k] by [n, k] -> [m, n], each times a scale, a float32. All are contiguous. Arguments are a, b,
the scale of a, the scale of b, and the result.""", (
    *(Number(name, "tensorflow::DataType", 1, 1000, "int") for name in ("type", "a_type", "b_type")),
    *(Number(name, "", 1, MOST_INT32) for name in ("m", "n", "k"))), ordered=True)


@dataclass(frozen=True)
class Float8Gemm(LibraryCall):
    """[m, k] of `a_dtype` by [n, k] of `b_dtype`, each times a scale -> [m, n] of `dtype`."""

    record = WORDS

    dtype: DType
    a_dtype: DType
    b_dtype: DType
    m: int
    n: int
    k: int

    def operand_bytes(self) -> list[int]:
        scale = DType.F32.size
        return [self.m * self.k, self.n * self.k, scale, scale, self.m * self.n * self.dtype.size]

    def at_hand(self) -> Float8Gemm:
        return replace(self, m=int(self.m), n=int(self.n), k=int(self.k))

    def too_large(self) -> str:
        if max(self.m, self.n, self.k) <= MOST_INT32:
            return ""
        return f"{self} has an extent above {MOST_INT32}, which matrix libraries count with 32 bits"

    def members(self) -> Mapping[str, Any]:
        return {"type": TYPES[self.dtype], "a_type": TYPES[self.a_dtype], "b_type": TYPES[self.b_dtype],
                "m": self.m, "n": self.n, "k": self.k}

    @property
    def domain(self) -> tuple[int, int]:
        return self.m, self.n

    def reference(self, arguments: Sequence[NDArray[np.uint8]]) -> None:
        a, b, a_scale, b_scale, out = arguments
        left = a.view(self.a_dtype.numpy).reshape(self.m, self.k).astype(np.float32)
        right = b.view(self.b_dtype.numpy).reshape(self.n, self.k).astype(np.float32)
        result = np.matmul(left, right.T) * (a_scale.view(np.float32)[0] * b_scale.view(np.float32)[0])
        out.view(self.dtype.numpy)[...] = result.astype(self.dtype.numpy).reshape(-1)

    def __str__(self) -> str:
        types = f"{self.a_dtype.value} x {self.b_dtype.value} -> {self.dtype.value}"
        return f"gemm {types} [{self.m},{self.k}]x[{self.n},{self.k}]"


class Float8Library(Library):
    """Matmuls of float8."""

    name = "float8_gemm"
    record = WORDS
    sources = ("op/gemm.cc", "cuda/cublas_lt.cc", "cuda/lt_library.cc")

    def is_root(self, node: Node) -> bool:
        return node.kind is OpKind.FLOAT8_DOT

    def extensions(self, root: Node, users: dict[Node, list[Node]], wanted: frozenset[Node]) -> Iterator[FusedNodes]:
        return iter(())  # nothing that follows is computed by the call

    def match(self, nodes: Sequence[Node]) -> OneNode | None:
        return OneNode(nodes[0]) if len(nodes) == 1 else None

    def bind(self, fused: OneNode, stored: Collection[Node]) -> BoundCall:
        node = fused.result
        a, b = node.operands[:2]
        m, n = node.type.dims
        call = Float8Gemm(node.type.dtype, a.type.dtype, b.type.dtype, m, n, terms_of(node))
        read = (in_memory(operand, stored) for operand in node.operands)
        return BoundCall(call, fused.nodes, (*((x, Mode.READ) for x in read), (node, Mode.WRITE)))

    def measured_us(self, root: Node, profile: DeviceProfile) -> float | None:
        m, n = (int(d) for d in root.type.dims)
        halves = profile.matmul_us(DType.BF16.value, (1, m, int(terms_of(root)), n))
        calls = profile.library_calls
        return None if halves is None else calls.float8_us + calls.float8_part * halves


FLOAT8 = Float8Library()
