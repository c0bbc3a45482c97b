"""Calibration of a GPU's library: products of few rows, which kernels may compute as well
(transforms/sum_thin_products.py). Without TensorFlow."""

from __future__ import annotations

import itertools
import sys
from typing import Any

from benchmarking.cublas_lt import CublasLt, Operands, fastest_calls, product
from benchmarking.graph_nodes import node_us
from tf_stitch.ir.dtypes import DType

AXES = ((1, 16, 256), (1, 2, 4, 8, 16), (64, 256, 1024, 4096), (64, 256, 1024, 4096, 32768))
"""Batches, m, k and n."""
DTYPES = (DType.F32, DType.F16)
LARGEST = 1 << 32
"""Bytes of the matrices of a product that is timed; a larger batch takes as much longer as it is larger."""


def few_rows() -> dict[str, Any]:
    """`products` of a profile: each reads matrices that no cache holds. None where CuPy finds no cuBLASLt."""
    from cuda.pathfinder import DynamicLibNotFoundError

    try:
        lt = CublasLt()
    except DynamicLibNotFoundError as error:
        print(f"products are not measured: {error}", file=sys.stderr)
        return {}
    return {dtype.value: {"axes": [list(axis) for axis in AXES], "us": _times(lt, dtype)} for dtype in DTYPES}


def _times(lt: CublasLt, dtype: DType) -> list[float]:
    import cupy

    us: dict[tuple[int, ...], float] = {}
    for batch, m, k, n in itertools.product(*AXES):
        if batch * k * n * dtype.size <= LARGEST:
            gemm = product(dtype, (batch, m, k, n), False)
            us[batch, m, k, n] = node_us(*fastest_calls(lt, gemm, Operands(gemm)), nodes=20, launches=5)
            cupy.get_default_memory_pool().free_all_blocks()
        else:
            smaller = AXES[0][AXES[0].index(batch) - 1]
            us[batch, m, k, n] = us[smaller, m, k, n] * batch / smaller
    print(f"{dtype.value} products of few rows", file=sys.stderr)
    return list(us.values())
