"""A process with one case on one backend: `worker.py CASE BACKEND` answers "run N", "settle SECONDS", "memory 0" and
"profile N"."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from tools.benchmark.cases import CASES, Step
from tools.benchmark.kernel_counts import profiled
from tools.benchmark.model_cases import ModelCase, step_of
from tools.benchmark.workers import serve


def start(case: str, backend: str) -> Callable[..., dict[str, Any]]:
    # False: no XLA, whatever the devices. A session takes no such argument: XLA clusters it by itself.
    step = step_of(ModelCase(*case.split("/")), jit_compile=backend == "xla") if "/" in case else CASES[case](backend)

    def answer(what: str, count: str) -> dict[str, Any]:
        if what == "run":
            return timed(step, int(count))
        if what == "settle":
            return settled(float(count))
        return (profiled(step, int(count)) if what == "profile" else {}) | peak_memory()

    return answer


def timed(step: Step, steps: int) -> dict[str, Any]:
    """Seconds on the wall and of processors, and losses, of `steps` steps."""
    seconds, processor, losses = [], [], []
    for _ in range(steps):
        begin, used = time.perf_counter(), processor_seconds()
        losses.append(step())
        seconds.append(time.perf_counter() - begin)
        processor.append(processor_seconds() - used)
    return {"seconds": seconds, "processor": processor, "losses": losses}


def processor_seconds() -> float:
    """Of this process and the compilers that it ran, so far."""
    times = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(time.ru_utime + time.ru_stime for time in times)


def settled(limit: float) -> dict[str, Any]:
    """Waits until tf_stitch has nothing left to build in the background, `limit` seconds at most."""
    from tf_stitch.plugin.activation import current_session

    begin, session = time.perf_counter(), current_session()
    done = session is None or session.finish_builds(limit)
    return {"settled": done, "seconds": time.perf_counter() - begin}


def peak_memory() -> dict[str, float]:
    """In MiB: of the process, and since this was last asked for of TensorFlow's allocator on the first GPU if there is
    one."""
    import tensorflow as tf

    peaks = {"host_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
    if tf.config.list_physical_devices("GPU"):
        peaks["gpu_mib"] = tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**20
        tf.config.experimental.reset_memory_stats("GPU:0")
    return peaks


if __name__ == "__main__":
    serve(lambda: start(*sys.argv[1:]))
