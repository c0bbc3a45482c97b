"""Runs a GPU executable on NumPy arrays through CuPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.differential.redzones import ZONE, Guarded, spread
from tests.differential.runner import Array, Values, add_written, cache, results_by_key
from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.runtime.device_run import DeviceExecutable
from tf_stitch.runtime.nvrtc_builder import build_cuda

UNALIGNED = 8
"""Bytes off, where kernels may rely on no more than the alignment of elements."""


def run_gpu(graph: TensorGraph, region: CompiledRegion, values: Values, runs: int = 1, aligned: bool = True,
            cubin: Path | None = None) -> Values:
    """Outputs and new values of variables; memory that a kernel has to write starts as garbage, and every buffer lies
    between zones that have to stay as they are.

    Args:
        aligned: what the region was compiled for.
        cubin: what holds the kernels, if the region is not to be built.

    Raises:
        RedzoneError: something was written beside a buffer.
    """
    import cupy
    values = add_written(graph, values)
    if cubin is None and region.source:
        cubin = build_cuda(region.source, "90", cache())
    executable, gaps = spread(region, ZONE)
    guarded = Guarded(shift=0 if aligned else UNALIGNED)
    memory = {name: guarded.hold(name, x) for name, x in values.items()}
    run = DeviceExecutable(executable, cubin, memory, memory, guarded.allocate)
    guarded.watch("arena", run.arena, gaps)
    for _ in range(runs):
        run()
    cupy.cuda.Device().synchronize()
    guarded.check()

    def host(found: object, shape: tuple[int, ...], dtype: np.dtype) -> Array:  # type: ignore[type-arg]
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return found.get()[:count].view(dtype).reshape(shape)  # type: ignore[attr-defined, no-any-return]

    outs = [host(m, t.dims, t.dtype.numpy) for m, t in zip(run.outputs, executable.outputs, strict=True)]
    state = {name: host(m, values[name].shape, values[name].dtype) for name, m in run.state.items()}
    return results_by_key(graph, outs, state)
