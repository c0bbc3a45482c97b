"""Tunes the templates of kernels (F9), and measures complex patterns against their parts for later plans (F6), both in
the background."""

from __future__ import annotations

import heapq
import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tf_stitch.compiler.compile_pattern import compile_pattern
from tf_stitch.compiler.horizontal_fusion import Launches, Numbers, proposals
from tf_stitch.compiler.packing import pack
from tf_stitch.compiler.partition_search import measure_fusion
from tf_stitch.compiler.program_times import ProgramTimer
from tf_stitch.compiler.template_tuner import Tuning, rule_kernels, text_of, tune
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError, StitchError
from tf_stitch.ir.graph import users_of
from tf_stitch.jit.interpreter_turns import short_turns
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.placement.buffer_plan import BufferPlan
from tf_stitch.planning.cost_model import predict_us
from tf_stitch.planning.free_nodes import live_out
from tf_stitch.planning.measured_cost import MeasuredTimes, measurement_key, patterns_to_measure
from tf_stitch.planning.measured_fusions import MeasuredFusion, MeasuredFusions
from tf_stitch.planning.pattern import Pattern
from tf_stitch.planning.stitch_plan import StitchPlan
from tf_stitch.planning.tuned_templates import TunedTemplates
from tf_stitch.runtime.kernel_cache import KernelCache

PATIENCE = 5.0
"""Seconds that the end of a process waits for a measurement under way."""


@dataclass(frozen=True)
class Job:
    """A plan whose patterns are to be measured, and their templates tuned; `ordinal` is the GPU's, or -1.

    Attributes:
        kernels: the plan's; their patterns are tuned.
        buffers, fusions: of kernels that may share blocks, and what is known of that; None: none may.
    """

    plan: StitchPlan
    device: DeviceSpec
    ordinal: int
    aligned: bool
    times: MeasuredTimes
    tuned: TunedTemplates
    kernels: tuple[LoweredKernel, ...] = ()
    buffers: BufferPlan | None = None
    fusions: MeasuredFusions | None = None


class Tuner:
    """A thread that measures until its seconds are spent. Does nothing if there are none.

    Args:
        note: is told what could not be measured, and why.
        found: is told what tuning found, and in how many seconds.
        fused: is told of kernels, by the user's names, that are faster in shared blocks.
    """

    def __init__(self, seconds: float, cache: KernelCache, note: Callable[[str], None],
                 found: Callable[[Tuning, float], None],
                 fused: Callable[[str, MeasuredFusion], None] = lambda _, __: None) -> None:
        self._left, self._cache, self._note, self._found, self._fused = seconds, cache, note, found, fused
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._stop = False
        self._tasks: list[tuple[float, int, Callable[[], None]]] = []  # a heap: the smallest first

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
        while not self._stop and self._left > 0:
            while not self._tasks or not self._jobs.empty():
                job = self._jobs.get()
                if job is None:
                    return
                self._push(self._tasks_of(job))
            start = time.perf_counter()
            try:
                with short_turns():
                    heapq.heappop(self._tasks)[-1]()
            except (StitchError, OSError) as error:
                self._note(str(error))
            self._left -= time.perf_counter() - start

    def _push(self, tasks: Iterable[tuple[float, Callable[[], None]]]) -> None:
        for rank, task in tasks:
            heapq.heappush(self._tasks, (rank, next(self._numbers), task))

    def _tasks_of(self, job: Job) -> Iterator[tuple[float, Callable[[], None]]]:
        """With their ranks: templates of the longest kernels first, since later processes gain by them whatever their
        plans are; then times for plans."""
        for kernel in kernels_to_tune(job):
            yield -predict_us(kernel.program, job.device), partial(self._tune, kernel, job)
        if job.fusions is not None and job.buffers is not None:
            yield from self._fusion_tasks(job, launches_of(job.buffers, job), job.fusions)
        graph = job.plan.graph
        for pattern, parts in patterns_to_measure(job.plan, users_of(graph.nodes()), frozenset(live_out(graph))):
            yield 0.0, partial(measure, (pattern, *parts), job, self._cache)

    def _fusion_tasks(self, job: Job, launches: Launches, fusions: MeasuredFusions, beside: Numbers = ()
                      ) -> Iterator[tuple[float, Callable[[], None]]]:
        for gain, numbers in proposals(launches, fusions, beside):
            yield -gain, partial(self._fuse, numbers, job, launches, fusions)

    def _fuse(self, numbers: Numbers, job: Job, launches: Launches, fusions: MeasuredFusions) -> None:
        if launches.measured(numbers, fusions) is not None:  # for another region, meanwhile
            return
        kernels = launches.kernels(numbers)
        start = time.perf_counter()
        timer = ProgramTimer(job.device, job.ordinal, self._cache)
        record = measure_fusion(kernels, job.device, timer, timer.apart,
                                lambda: not self._stop and time.perf_counter() - start < self._left)
        if record is not None:
            fusions.add({launches.key(numbers): record})
            if record.is_faster:
                self._fused(" and ".join(kernel.program.title[:60] for kernel in kernels), record)
                self._push(self._fusion_tasks(job, launches, fusions, numbers))  # with one kernel more

    def _tune(self, kernel: LoweredKernel, job: Job) -> None:
        if is_tuned(kernel, job):  # for another region, meanwhile
            return
        start = time.perf_counter()
        timer = ProgramTimer(job.device, job.ordinal, self._cache)
        tuning = tune(kernel, job.device, job.aligned, timer,
                      go_on=lambda: not self._stop and time.perf_counter() - start < self._left)
        if tuning is None:
            return
        for template, why in tuning.failed.items():
            self._note(f"{template} {why}")
        key = measurement_key(kernel.schedule.pattern, job.aligned)
        job.tuned.add({key: tuning.record()})
        job.times.add({key: tuning.best_us})  # what it takes from now on, for plans
        self._found(tuning, time.perf_counter() - start)


def launches_of(buffers: BufferPlan, job: Job) -> Launches:
    """Those of a job's region, before any share blocks."""
    works, levels = buffers.kernels, buffers.levels
    return Launches(works, levels, pack(works, levels, False, job.device), job.device, job.aligned)


def kernels_to_tune(job: Job) -> list[LoweredKernel]:
    """By the rules, those of the job's patterns that no tuning knows yet."""
    found = rule_kernels(job.kernels, job.device, job.aligned).values()
    return [kernel for kernel in found if not is_tuned(kernel, job)]


def is_tuned(kernel: LoweredKernel, job: Job) -> bool:
    """Whether a kernel by the rules was tuned already."""
    known = job.tuned.get(measurement_key(kernel.schedule.pattern, job.aligned))
    return known is not None and known.default == text_of(kernel)


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
    times = ProgramTimer(job.device, job.ordinal, cache)(list(programs.values()))
    job.times.add({key: us for key, us in zip(programs, times, strict=True) if us > 0})
