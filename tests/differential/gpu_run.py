"""Runs a GPU executable on NumPy arrays through CuPy."""

from __future__ import annotations

import numpy as np

from tests.differential.runner import Array, Values, add_written, cache, results_by_key
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.pipeline import CompiledRegion
from tf_stitch.runtime.device_run import DeviceExecutable
from tf_stitch.runtime.nvrtc_builder import build_cuda


def run_gpu(graph: TensorGraph, region: CompiledRegion, values: Values, runs: int = 1) -> Values:
    """Outputs and new values of variables; memory that a kernel has to write starts as garbage."""
    import cupy
    e = region.executable
    values = add_written(graph, values)
    memory = {name: cupy.asarray(np.ascontiguousarray(x).reshape(-1).view(np.uint8)) for name, x in values.items()}
    run = DeviceExecutable(e, build_cuda(region.source, "90", cache()) if region.source else None, memory, memory)
    for _ in range(runs):
        run()
    cupy.cuda.Device().synchronize()

    def host(found: object, shape: tuple[int, ...], dtype: np.dtype) -> Array:  # type: ignore[type-arg]
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return found.get()[:count].view(dtype).reshape(shape)  # type: ignore[attr-defined, no-any-return]

    outs = [host(m, t.dims, t.dtype.numpy) for m, t in zip(run.outputs, e.outputs, strict=True)]
    state = {name: host(m, values[name].shape, values[name].dtype) for name, m in run.state.items()}
    return results_by_key(graph, outs, state)
