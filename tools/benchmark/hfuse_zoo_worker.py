"""A process with one step of a model under tf_stitch: `hfuse_zoo_worker.py CASE` answers "ready N" (N steps, until
nothing is left to build), "launches", "build N" and "measure SECONDS" (kernels in shared blocks), and "run N"
(milliseconds of a step)."""

from __future__ import annotations

import heapq
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

from tf_stitch.compiler.horizontal_fusion import Launches, Numbers, fused_launches, proposals
from tf_stitch.compiler.partition_search import measure_fusion, partitions_to_time
from tf_stitch.compiler.program_times import ProgramTimer, timed_kernels
from tf_stitch.compiler.template_tuner import BATCH
from tf_stitch.compiler.thread_partitions import Kernels
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import BuildError, StitchError
from tf_stitch.jit.tuner import Job, Tuner, launches_of
from tf_stitch.planning.measured_fusions import MeasuredFusion
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.targets.registry import target_of
from tools.benchmark.cases import Step
from tools.benchmark.model_cases import ModelCase, step_of
from tools.benchmark.workers import serve

VISION = "vision"
"""In the place of a model of the zoo: "vision/NETWORK/MODE/BATCH/SIZE"."""


def start(case: str) -> Callable[..., dict[str, Any]]:
    jobs: list[Job] = []
    Tuner.add = lambda self, job: jobs.append(job)  # type: ignore[method-assign]
    step = vision_step(*case.split("/")[1:]) if case.startswith(VISION) else step_of(ModelCase(*case.split("/")), False)

    @cache
    def sets() -> Sets:
        from tf_stitch.plugin.activation import current_session  # not before TensorFlow, whose import activates

        session = current_session()
        if session is None:
            raise RuntimeError("tf_stitch is not active")
        return Sets(jobs, session.registry.cache)

    def run(steps: int) -> dict[str, Any]:
        begin = time.perf_counter()
        for _ in range(steps):
            result = step()
        return {"ms": (time.perf_counter() - begin) * 1e3 / steps, "result": result}

    answers: dict[str, Callable[[float], dict[str, Any]]] = {
        "ready": lambda number: ready(step, int(number)), "launches": lambda _: launches(jobs),
        "build": lambda number: sets().build(int(number)), "measure": lambda number: sets().measure(number),
        "run": lambda number: run(int(number))}
    return lambda what, number="0": answers[what](float(number))


def vision_step(name: str, mode: str, batch: str, size: str) -> Step:
    import keras
    import numpy as np
    import tensorflow as tf

    from models.vision import build

    keras.utils.set_random_seed(0)
    network = build(name, int(size))
    wanted, *given = map(tf.constant, network.batch(int(batch)))
    step = tf.function(network.train if mode == "train" else network.infer, autograph=False, jit_compile=False)
    arguments = (wanted, *given) if mode == "train" else given
    return lambda: float(np.sqrt(np.mean(np.square(np.asarray(step(*arguments)).astype(np.float64)))))


def ready(step: Step, steps: int) -> dict[str, Any]:
    """Seconds of the first step and of those after it, builds in the background included."""
    from tf_stitch.plugin.activation import current_session

    begin = time.perf_counter()
    for _ in range(steps):
        step()
        session = current_session()
        if session is not None:
            session.registry.finish_builds(60)
    return {"seconds": time.perf_counter() - begin}


def launches(jobs: Sequence[Job]) -> dict[str, Any]:
    """Counts over all regions: launches; rounds with two kernels or more that could share blocks, and these kernels;
    launches in which kernels share blocks, and these."""
    counts = dict.fromkeys(("regions", "launches", "rounds", "able", "shared", "sharing"), 0)
    for job in jobs:
        if job.buffers is None:
            continue
        found = launches_of(job.buffers, job)
        fused = fused_launches(found, job.fusions) if job.fusions is not None else {}
        sharing = sum(map(len, fused))
        counts["regions"] += 1
        counts["launches"] += len(found.groups) - sharing + len(fused)
        counts["rounds"] += len(found.independent)
        counts["able"] += sum(map(len, found.independent))
        counts["shared"] += len(fused)
        counts["sharing"] += sharing
    return counts


class Sets:
    """Kernels that the model proposes for shared blocks, the largest gain first; those of equal regions once."""

    def __init__(self, jobs: Sequence[Job], cache: KernelCache) -> None:
        self._cache, self._order = cache, count()
        self._waiting: list[tuple[float, int, Set]] = []
        for job in jobs:
            if job.buffers is not None and job.fusions is not None:
                self._propose(job, launches_of(job.buffers, job))
        self.proposed = len(self._waiting)

    def _propose(self, job: Job, launches: Launches, beside: Numbers = ()) -> None:
        known = {one.key for _, _, one in self._waiting}
        for gain, numbers in proposals(launches, job.fusions, beside):
            if launches.key(numbers) not in known:
                known.add(launches.key(numbers))
                heapq.heappush(self._waiting, (-gain, next(self._order), Set(job, launches, numbers, gain)))

    def build(self, most: int) -> dict[str, Any]:
        """Compiles what measuring the first sets takes, on all cores."""
        begin, sources = time.perf_counter(), list[tuple[str, DeviceSpec]]()
        for _, _, one in heapq.nsmallest(most, self._waiting):
            tried = [partition.program for partition in partitions_to_time(one.kernels, one.job.device)]
            batches = [tried[first:first + BATCH] for first in range(0, len(tried), BATCH)]
            sources += [(timed_kernels(programs, one.job.device)[0], one.job.device)
                        for programs in (*batches, [kernel.program for kernel in one.kernels])]

        def build(one: tuple[str, DeviceSpec]) -> None:
            source, device = one
            with suppress(BuildError):  # measuring says what
                target_of(device).build(source, device.architecture, self._cache)

        with ThreadPoolExecutor() as pool:
            list(pool.map(build, sources))
        return {"build_s": time.perf_counter() - begin, "proposed": self.proposed}

    def measure(self, seconds: float) -> dict[str, Any]:
        """Times sets and keeps the records; a row for each. As the tuner does it, but nothing else is tuned, so that
        kernels stay as they were measured."""
        end, rows, errors = time.monotonic() + seconds, list[dict[str, Any]](), dict[str, int]()
        while self._waiting and time.monotonic() < end:
            one = heapq.heappop(self._waiting)[-1]
            timer = ProgramTimer(one.job.device, one.job.ordinal, self._cache)
            try:
                record = measure_fusion(one.kernels, one.job.device, timer, timer.apart, lambda: time.monotonic() < end)
            except StitchError as error:
                errors[str(error)] = errors.get(str(error), 0) + 1
                continue
            if record is None:
                continue
            assert one.job.fusions is not None
            one.job.fusions.add({one.key: record})
            rows.append(one.row(record))
            if record.is_faster:
                self._propose(one.job, one.launches, one.numbers)
        return {"left": len(self._waiting), "rows": rows, "errors": errors}


@dataclass(frozen=True)
class Set:
    """Kernels of a region."""

    job: Job
    launches: Launches
    numbers: Numbers
    predicted_us: float

    @property
    def kernels(self) -> Kernels:
        return self.launches.kernels(self.numbers)

    @property
    def key(self) -> str:
        return self.launches.key(self.numbers)

    def row(self, record: MeasuredFusion) -> dict[str, Any]:
        kernels = self.kernels
        return {"kernels": [kernel.program.title[:80] for kernel in kernels],
                "families": [kernel.schedule.family for kernel in kernels], "threads": record.threads,
                "resident": record.resident, "predicted_us": self.predicted_us, "apart_us": record.apart_us,
                "together_us": record.together_us, "tried": record.tried, "faster": record.is_faster}


if __name__ == "__main__":
    serve(lambda: start(*sys.argv[1:]))
