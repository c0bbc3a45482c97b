"""Calibration of a GPU's library: matmuls of few rows, which kernels may compute as well
(passes/lower_gemv_to_reduction.py). Without TensorFlow."""

from __future__ import annotations

import itertools
import sys
from typing import Any

from tf_stitch.ir.dtypes import DType
from tf_stitch.runtime.device_run import queued_us
from tools.benchmark.cublas_lt import CublasLt, Operands, fastest_calls, matmul
from tools.benchmark.graph_nodes import node_us

AXES = ((1, 16, 256), (1, 2, 4, 8, 16), (64, 256, 1024, 4096), (64, 256, 1024, 4096, 32768))
"""Batches, m, k and n."""
DTYPES = (DType.F32, DType.F16)
LARGEST = 1 << 32
"""Bytes of the matrices of a matmul that is timed; a larger batch takes as much longer as it is larger."""


def few_rows() -> dict[str, Any]:
    """`matmuls` of a profile: each reads matrices that no cache holds. None where CuPy finds no cuBLASLt.

    They are timed as nodes of graphs: the host takes longer to call the library than a matmul takes. What a launch in
    a queue takes longer than a node is added, for the profile's times of kernels are of those.
    """
    from cuda.pathfinder import DynamicLibNotFoundError

    try:
        lt = CublasLt()
    except DynamicLibNotFoundError as error:
        print(f"matmuls are not measured: {error}", file=sys.stderr)
        return {}
    extra = launch_beyond_node_us()
    print(f"a launch in a queue takes {extra:.3f} us more than a node", file=sys.stderr)
    return {dtype.value: {"axes": [list(axis) for axis in AXES], "us": [us + extra for us in _times(lt, dtype)]}
            for dtype in DTYPES}  # fmt: skip


def launch_beyond_node_us() -> float:
    """Microseconds of an empty kernel in a queue of them beyond those of one in a graph."""
    import cupy

    empty = cupy.RawKernel('extern "C" __global__ void tfs_empty() {}', "tfs_empty")

    def call() -> None:
        empty((1,), (32,), ())

    return queued_us(call) - node_us(call)


def _times(lt: CublasLt, dtype: DType) -> list[float]:
    import cupy

    us: dict[tuple[int, ...], float] = {}
    for batch, m, k, n in itertools.product(*AXES):
        if batch * k * n * dtype.size <= LARGEST:
            gemm = matmul(dtype, (batch, m, k, n), False)
            us[batch, m, k, n] = node_us(*fastest_calls(lt, gemm, Operands(gemm)), nodes=20, launches=5)
            cupy.get_default_memory_pool().free_all_blocks()
        else:
            smaller = AXES[0][AXES[0].index(batch) - 1]
            us[batch, m, k, n] = us[smaller, m, k, n] * batch / smaller
    print(f"{dtype.value} matmuls of few rows", file=sys.stderr)
    return list(us.values())
