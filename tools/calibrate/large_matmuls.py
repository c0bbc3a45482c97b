"""Calibration of a GPU's library: large matmuls, whose rows begin at multiples of 16 bytes or fewer
(passes/pad_matmuls.py). Without TensorFlow."""

from __future__ import annotations

import sys

from tf_stitch.ir.dtypes import DType
from tools.benchmark.cublas_lt import CublasLt, Operands, fastest_calls, matmul
from tools.benchmark.graph_nodes import node_us

ROWS = 4096
"""And terms, and about as many columns."""
DTYPES = (DType.F32, DType.F16, DType.BF16)
ROW_BYTES = (2, 4, 8, 16)


def matmul_rates() -> dict[str, dict[str, float]]:
    """`matmul_rates` of a profile. Nothing where CuPy finds no cuBLASLt."""
    from cuda.pathfinder import DynamicLibNotFoundError

    try:
        lt = CublasLt()
    except DynamicLibNotFoundError as error:
        print(f"large matmuls are not measured: {error}", file=sys.stderr)
        return {}
    return {dtype.value: {str(row): large_rate(lt, dtype, row) for row in ROW_BYTES if row >= dtype.size}
            for dtype in DTYPES}  # fmt: skip


def large_rate(lt: CublasLt, dtype: DType, row_bytes: int) -> float:
    """10^9 multiplications a second of a matmul whose rows begin at multiples of so many bytes, and not of more."""
    columns = ROWS + row_bytes // dtype.size
    gemm = matmul(dtype, (1, ROWS, ROWS, columns), False)
    us = node_us(*fastest_calls(lt, gemm, Operands(gemm)), nodes=20, launches=3)
    return ROWS * ROWS * columns / us * 1e-3
