"""Measures complex patterns against their parts in the background, for the plans of later processes (F6)."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError, StitchError
from tf_stitch.ir.graph import users_of
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.lowering.compile_pattern import compile_pattern
from tf_stitch.planning.cost_model import predict_us
from tf_stitch.planning.measured_cost import MeasuredTimes, measurement_key, patterns_to_measure
from tf_stitch.planning.stitch_plan import Pattern, StitchPlan, delivered
from tf_stitch.runtime.device_run import time_on_device
from tf_stitch.runtime.host_builder import build_host
from tf_stitch.runtime.host_timer import time_on_host, with_timer
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import build_cuda
from tf_stitch.runtime.timed_kernel import timed_kernels

LARGEST = 1 << 30
"""Bytes that the buffers of a measured kernel may take: the memory is the user's."""
PATIENCE = 5.0
"""Seconds that the end of a process waits for a measurement under way."""


@dataclass(frozen=True)
class Job:
    """A plan whose patterns are to be measured; `ordinal` is the GPU's, or -1."""

    plan: StitchPlan
    device: DeviceSpec
    ordinal: int
    aligned: bool
    times: MeasuredTimes


class Tuner:
    """A thread that measures until its seconds are spent. Does nothing if there are none.

    Args:
        note: is told what could not be measured, and why.
    """

    def __init__(self, seconds: float, cache: KernelCache, note: Callable[[str], None]) -> None:
        self._left, self._cache, self._note = seconds, cache, note
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._stop = False

    def add(self, job: Job) -> None:
        """Takes a plan; returns at once."""
        if self._left <= 0:
            return
        self._jobs.put(job)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="tf_stitch_tune", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Ends the thread after the pattern it is at."""
        self._stop = True
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join(PATIENCE)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            graph = job.plan.graph
            for pattern, parts in patterns_to_measure(job.plan, users_of(graph.nodes()), frozenset(delivered(graph))):
                if self._stop or self._left <= 0:
                    return
                start = time.perf_counter()
                try:
                    measure([pattern, *parts], job, self._cache)
                except (StitchError, OSError) as error:
                    self._note(str(error))
                self._left -= time.perf_counter() - start


def measure(patterns: Sequence[Pattern], job: Job, cache: KernelCache) -> None:
    """Builds and times those of the patterns that are not known yet, and keeps the times.

    Raises:
        BuildError: a compiler is missing or rejects a kernel.
        OSError: the times cannot be kept.
    """
    programs: dict[str, Program] = {}
    for pattern in patterns:
        key = measurement_key(pattern, job.aligned)
        if job.times.get(key) is not None or key in programs:
            continue
        try:
            program = compile_pattern(pattern, job.device, job.aligned).program
        except ScheduleError:
            continue  # no kernel, no time
        if program.grid:
            programs[key] = program
    if not programs:
        return
    source, kernels = timed_kernels(list(programs.values()), job.device)
    if any(kernel.nbytes > LARGEST for kernel in kernels):
        return
    if job.device.is_gpu:
        times = time_on_device(build_cuda(source, job.device.architecture, cache), kernels, job.ordinal)
    else:
        alone = time_on_host(build_host(with_timer(source), job.device.architecture, cache), kernels)
        times = [us * _share(program, job.device) for us, program in zip(alone, programs.values(), strict=True)]
    job.times.add({key: us for key, us in zip(programs, times, strict=True) if us > 0})


def _share(program: Program, device: DeviceSpec) -> float:
    """What part of its time in one thread a CPU kernel takes on all cores, by the model."""
    return predict_us(program, device) / predict_us(program, replace(device, processors=1))
