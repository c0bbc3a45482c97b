"""Calibration of a CUDA device, through CuPy."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from tf_stitch.compiler.program_times import timed_kernels
from tf_stitch.device.profile import interpolate
from tf_stitch.device.spec import H200, DeviceSpec
from tf_stitch.ir.graph import Node
from tf_stitch.kernel_ir.nodes import GridBarrier, Program
from tf_stitch.runtime.device_query import compute_capability, cpu_count, driver_facts
from tf_stitch.runtime.device_run import queued_us, time_on_device
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import build_cuda
from tools.calibrate.few_rows import few_rows
from tools.calibrate.kernels import program_of
from tools.calibrate.large_matmuls import matmul_rates
from tools.calibrate.measure import ODD_ELEMENTS, PLANS, common, reductions, wave_us

_CHASE = r"""
extern "C" __global__ void chase(const int* __restrict__ next, int start, int steps, int* out) {
  int at = start;
  for (int i = 0; i < steps; ++i) at = next[at];
  *out = at;
}
"""
TOGETHER = 2
"""Kernels of one compilation; several run at once."""
STEPS = 2000
AS_THE_PAPER = (20, 40, 60, 80, 100, 120, 140, 160)
"""Blocks of AStitch's Table 6."""
LINE = 32
"""Elements between two of a chain: each load takes a cache line of its own."""


def calibrate(cache: KernelCache) -> tuple[DeviceSpec, dict[str, Any], dict[str, Any]]:
    """The device, what was measured of it, and where."""
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    device = replace(H200, name=properties["name"].decode(), processors=properties["multiProcessorCount"],
                     shared_bytes=properties["sharedMemPerBlockOptin"],
                     architecture=compute_capability(cupy.cuda.Device().id))  # fmt: skip

    def timer(nodes: Sequence[Node]) -> list[float]:
        programs = [program_of([node], device) for node in nodes]
        parts = [timed_kernels(programs[i:i + TOGETHER], device) for i in range(0, len(programs), TOGETHER)]
        with ThreadPoolExecutor(cpu_count()) as pool:
            cubins = list(pool.map(lambda part: build_cuda(part[0], device.architecture, cache), parts))
        return [us for cubin, (_, kernels) in zip(cubins, parts, strict=True) for us in time_on_device(cubin, kernels)]

    plan = PLANS["cuda"]
    values = common(plan, timer)
    values["reduction"] = reductions(timer, device.processors)
    values["latency"] = [[n, _latency_us(n)] for n in plan.tables]
    near = interpolate(tuple(map(tuple, values["latency"])), 8.0 * ODD_ELEMENTS)
    values["wave_us"] = wave_us(timer, device.processors, values["launch_us"], near)
    values["barrier"] = _barriers(device, cache)
    values["matmuls"] = few_rows()
    values["matmul_rates"] = matmul_rates()
    values["cache_bytes"] = int(properties["l2CacheSize"])
    values["shared_bytes"] = device.shared_bytes
    here = driver_facts(cupy.cuda.Device().id)
    made = {"gpu": device.name, "driver facts": asdict(here),
            "processors": device.processors, "compute_capability": device.architecture,
            "driver": cupy.cuda.runtime.driverGetVersion(), "cupy": cupy.__version__, "numpy": np.__version__,
            "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())), "date": time.strftime("%Y-%m-%d")}  # fmt: skip
    return device, values, made


def _barriers(device: DeviceSpec, cache: KernelCache) -> list[list[float]]:
    """Blocks -> one more grid barrier of so many large ones, two on a processor at most."""
    resident, threads, few, many = 2, 512, 2, 42
    grids = sorted({blocks for blocks in AS_THE_PAPER if blocks < resident * device.processors}
                   | {device.processors, resident * device.processors})  # fmt: skip
    programs = [Program((), grid, threads, (GridBarrier(),) * n, resident=resident) for grid in grids
                for n in (few, many)]  # fmt: skip
    source, kernels = timed_kernels(programs, device)
    times = time_on_device(build_cuda(source, device.architecture, cache), kernels)
    return [[grid, (times[2 * i + 1] - times[2 * i]) / (many - few)] for i, grid in enumerate(grids)]


def _latency_us(nbytes: int) -> float:
    """A load that depends on the one before, one thread alone: a random cycle through the lines of a table."""
    import cupy

    lines = nbytes // 4 // LINE
    order = np.random.default_rng(0).permutation(lines).astype(np.int32) * LINE
    table = np.zeros(nbytes // 4, np.int32)
    table[order] = np.roll(order, -1)
    device_table, out = cupy.asarray(table), cupy.empty(1, cupy.int32)
    kernel = cupy.RawKernel(_CHASE, "chase")
    state = {"calls": 0}

    def call() -> None:
        start = int(order[(state["calls"] * STEPS) % lines])  # goes on where the last call ended
        state["calls"] += 1
        kernel((1,), (1,), (device_table, np.int32(start), np.int32(STEPS), out))

    return queued_us(call) / STEPS
