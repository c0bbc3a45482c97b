"""A process with one of `cpu_cases` on one backend: `cpu_worker.py CASE BACKEND` answers "run SECONDS"."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from tools.benchmark.cpu_cases import CPU_CASES
from tools.benchmark.workers import serve


def start(name: str, backend: str) -> Callable[..., dict[str, Any]]:
    import tensorflow as tf

    case = next(case for case in CPU_CASES if case.name == name)
    call = case.build(tf, case.rows, case.columns, backend == "xla")

    def answer(what: str, amount: str) -> dict[str, Any]:
        if what == "results":
            for _ in range(int(amount)):
                outputs = call()
            return {"results": [[float(tf.reduce_mean(x)), float(tf.norm(x))] for x in outputs]}
        return {"us": timed(call, float(amount))}

    return answer


def timed(call: Callable[[], Any], seconds: float) -> list[float]:
    """Microseconds of calls for so long, at least one."""
    found, stop = list[float](), time.perf_counter() + seconds
    while not found or time.perf_counter() < stop:
        begin = time.perf_counter()
        call()
        found.append((time.perf_counter() - begin) * 1e6)
    return found


if __name__ == "__main__":
    serve(lambda: start(*sys.argv[1:]))
