"""A process with one workload of region_benchmark.py on one backend: `profile_worker.py WORKLOAD MODE BACKEND` answers
"M N", after M calls, with what N calls take, how long the host is busy with one before it returns, and what
TensorFlow's profiler saw on the device."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from tools.benchmark.kernel_counts import profiled
from tools.benchmark.workers import serve


def start(workload: str, mode: str, backend: str) -> Callable[..., dict[str, Any]]:
    import numpy as np

    from tools.benchmark.region_cases import make_step

    step = make_step(workload, mode, backend)

    def seconds(calls: int) -> tuple[float, float]:
        """Until the last of them has returned, and until its result is there."""
        result, begin = None, time.perf_counter()
        for _ in range(calls):
            result = step()
        returned = time.perf_counter() - begin
        np.asarray(result)
        return returned, time.perf_counter() - begin

    def answer(warm_up: str, calls: str) -> dict[str, Any]:
        seconds(int(warm_up))
        returned, done = seconds(int(calls))
        return {"host_us": returned / int(calls) * 1e6, "call_us": done / int(calls) * 1e6,
                **profiled(lambda: np.asarray(step()), int(calls))}  # fmt: skip

    return answer


if __name__ == "__main__":
    serve(lambda: start(*sys.argv[1:]))
