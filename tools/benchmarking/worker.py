"""A process with one case on one backend. `worker.py CASE BACKEND` reads "run N" or "profile N" lines and answers each
with JSON."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarking.cases import CASES, Step
from benchmarking.kernel_counts import profiled
from benchmarking.model_cases import ModelCase, step_of


def main(case: str, backend: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what TensorFlow prints is no answer
    step = start(case, backend)
    for line in sys.stdin:
        what, count = line.split()
        answer = timed(step, int(count)) if what == "run" else profiled(step, int(count)) | peak_memory()
        print(json.dumps(answer), file=answers, flush=True)


def start(case: str, backend: str) -> Step:
    if "/" not in case:
        return CASES[case](backend)
    model = ModelCase(*case.split("/"))
    # False: no XLA, whatever the devices. A session takes no such argument: XLA clusters it by itself.
    return step_of(model, jit_compile=backend == "xla")


def timed(step: Step, steps: int) -> dict[str, Any]:
    seconds, losses = [], []
    for _ in range(steps):
        begin = time.perf_counter()
        losses.append(step())
        seconds.append(time.perf_counter() - begin)
    return {"seconds": seconds, "losses": losses}


def peak_memory() -> dict[str, float]:
    """In MiB: of the process, and of TensorFlow's allocator on the first GPU if there is one."""
    import tensorflow as tf

    peaks = {"host_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
    if tf.config.list_physical_devices("GPU"):
        peaks["gpu_mb"] = tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**20
    return peaks


if __name__ == "__main__":
    main(*sys.argv[1:])
