"""Runs a GPU executable on NumPy arrays through CuPy."""

from __future__ import annotations

import numpy as np

from tests.differential.runner import Array, Values, add_written, cache, results_by_key
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.pipeline import CompiledRegion
from tf_stitch.runtime.executable import BufferRef, DeviceLaunch, Space, StateMode
from tf_stitch.runtime.nvrtc_builder import build_cuda


def gpu_is_here() -> bool:
    """Whether CuPy finds a device."""
    try:
        import cupy
    except ImportError:
        return False
    try:
        return bool(cupy.cuda.runtime.getDeviceCount() > 0)
    except (cupy.cuda.runtime.CUDARuntimeError, RuntimeError):
        return False


def run_gpu(graph: TensorGraph, region: CompiledRegion, values: Values) -> Values:
    """Outputs and new values of variables; memory that a kernel has to write starts as garbage."""
    import cupy
    e = region.executable
    values = add_written(graph, values)

    def device(x: Array) -> object:
        return cupy.asarray(np.ascontiguousarray(x).reshape(-1).view(np.uint8))

    def garbage(nbytes: int) -> object:
        return cupy.full(max(nbytes, 1), 0xAB, cupy.uint8)

    shapes = {k: (v.shape, v.dtype) for k, v in values.items()}
    current = [device(values[k]) for k in e.variables]
    spaces = {Space.INPUT: [device(values[k]) for k in e.inputs], Space.VARIABLE: current,
              Space.OUTPUT: [garbage(t.nbytes) for t in e.outputs],
              Space.FRESH: [garbage(current[v].nbytes) for v, _ in e.state]}  # type: ignore[attr-defined]
    arena = garbage(e.arena_bytes)

    def address(ref: BufferRef) -> int:
        if ref.space is Space.ARENA:
            return int(arena.data.ptr) + ref.index  # type: ignore[attr-defined]
        return int(spaces[ref.space][ref.index].data.ptr)  # type: ignore[attr-defined]

    module = cupy.RawModule(path=str(build_cuda(region.source, "90", cache()))) if region.source else None
    for step in e.steps:
        if isinstance(step, DeviceLaunch):
            assert module is not None
            kernel = module.get_function(step.symbol)
            if step.shared_bytes:
                kernel.max_dynamic_shared_size_bytes = step.shared_bytes
            kernel((step.grid,), (step.threads,), tuple(np.uint64(address(a)) for a in step.args),
                   shared_mem=step.shared_bytes)
        else:
            cupy.cuda.runtime.memcpy(address(step.target), address(step.source), step.nbytes, 3)  # type: ignore[union-attr]
    cupy.cuda.Device().synchronize()

    def host(memory: object, shape: tuple[int, ...], dtype: np.dtype) -> Array:  # type: ignore[type-arg]
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return memory.get()[:count].view(dtype).reshape(shape)  # type: ignore[attr-defined, no-any-return]

    outs = [host(m, t.dims, t.dtype.numpy) for m, t in zip(spaces[Space.OUTPUT], e.outputs, strict=True)]
    state = {e.variables[v]: host(current[v] if mode is StateMode.IN_PLACE else spaces[Space.FRESH][i],
                                  *shapes[e.variables[v]])
             for i, (v, mode) in enumerate(e.state)}
    return results_by_key(graph, outs, state)
