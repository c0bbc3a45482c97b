"""Calibration of this machine's CPU."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tf_stitch.compiler.program_times import timed_kernels
from tf_stitch.device.spec import CPU, DeviceSpec
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.runtime.device_query import cache_bytes, cpu_count, first_cache_bytes
from tf_stitch.runtime.host_builder import build_host
from tf_stitch.runtime.host_timer import random_array, time_on_host, with_timer
from tf_stitch.runtime.kernel_cache import KernelCache
from tools.benchmark.machine import describe_cpu
from tools.calibrate.kernels import empty, program_of, stream
from tools.calibrate.measure import (
    PLANS,
    all_cores,
    common,
    loop_us,
    multiply_add_rate,
    reduction_rates,
    scalar_rates,
)

ROUNDS = 4
CALLS = 2000
COLD_CALLS = 101
SWEEP = 2
"""Times the last cache: what leaves nothing else in it."""
MATMUL = (64, 256, 256)
"""Rows, terms, columns: its operands stay in the second cache."""
LOADING = """
import time, tensorflow, tf_stitch
start = time.process_time()
import tf_stitch.plugin.session
print(time.process_time() - start)
"""
"""Prints the processor seconds of loading what rewrites graphs."""
STREAM = 1 << 26
"""Bytes that each core streams to see what cores share."""


def calibrate(cache: KernelCache) -> tuple[DeviceSpec, dict[str, Any], dict[str, Any]]:
    """The device, what was measured of it, and where."""
    device = replace(CPU, processors=cpu_count())

    def timer(nodes: Sequence[Node]) -> list[float]:
        source, kernels = timed_kernels([program_of([node], device) for node in nodes], device)
        library = build_host(with_timer(source), device.architecture, cache)
        # Apart in time: a machine that is busy now may not be so later.
        rounds = [time_on_host(library, kernels) for _ in range(ROUNDS)]
        return [min(times) for times in zip(*rounds, strict=True)]

    plan = PLANS["cpu"]
    values = common(plan, timer)
    values["launch_us"] = _call_us(device, cache)
    values["handover_us"] = _handover_us(device, cache)
    values["all_cores"] = all_cores(_stream, device.processors)
    values["rates"]["scalar float32"] = scalar_rates(plan, timer)
    values["rates"]["float32"] |= reduction_rates(timer, plan.elements)
    values["rates"]["float32"][OpKind.DOT.value] = multiply_add_rate(timer, MATMUL)
    values["loop_us"] = loop_us(timer, plan.elements)
    values["cache_bytes"] = cache_bytes()
    values["shared_bytes"] = 0
    values["numbers"] = _numbers()
    return device, values, describe_cpu()


def _numbers() -> dict[str, dict[str, Any]]:
    """Numbers of the profile's groups that can be measured."""
    said = "python -m tools.calibrate: "
    found = {"kernels.near_bytes": {"value": first_cache_bytes() // 2, "unit": "bytes",
                                    "measured": said + "half of the first cache, as the kernel has it"}}
    loaded = subprocess.run([sys.executable, "-c", LOADING], check=False, capture_output=True, text=True)
    if loaded.returncode == 0:  # else there is no TensorFlow
        found["host.load_seconds"] = {"value": float(loaded.stdout.split()[-1]), "unit": "s",
                                      "measured": said + "importing tf_stitch.plugin.session"}
    return found


def _call_us(device: DeviceSpec, cache: KernelCache) -> float:
    """A kernel of next to no work after one that sweeps more than the last cache holds: its code and arguments come
    from memory, as in a step that does much else."""
    sweep = stream(SWEEP * cache_bytes())
    source, kernels = timed_kernels([program_of([node], device) for node in (sweep, empty())], device)
    turns = (Path(__file__).parent / "between.c").read_text()
    library = ctypes.CDLL(str(build_host(with_timer(source) + turns, device.architecture, cache)))
    memory = [[random_array(*buffer) for buffer in kernel.buffers] for kernel in kernels]
    args = [(ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays)) for arrays in memory]
    functions = [ctypes.cast(getattr(library, kernel.symbol), ctypes.c_void_p) for kernel in kernels]
    library.tfs_time_after.argtypes = [*[ctypes.c_void_p] * 5, ctypes.c_int64]
    nanoseconds = (ctypes.c_int64 * COLD_CALLS)()
    library.tfs_time_after(functions[0], args[0], functions[1], args[1], nanoseconds, COLD_CALLS)
    return max(median(nanoseconds), 1) / 1e3


def _handover_us(device: DeviceSpec, cache: KernelCache) -> float:
    if device.processors == 1:
        return 0.0
    source = (Path(__file__).parent / "handover.c").read_text()
    library = ctypes.CDLL(str(build_host(source, device.architecture, cache)))
    library.tfs_handover.restype = ctypes.c_int64
    library.tfs_handover.argtypes = [ctypes.c_int64, ctypes.c_int64]
    return min(int(library.tfs_handover(device.processors - 1, CALLS)) for _ in range(5)) / 1e3


def _stream() -> float:
    """Seconds to copy memory of its own; NumPy releases the interpreter meanwhile."""
    source = np.ones(STREAM // 4, np.float32)
    target = np.empty_like(source)
    np.copyto(target, source)
    start = time.perf_counter()
    for _ in range(5):
        np.copyto(target, source)
    return time.perf_counter() - start
