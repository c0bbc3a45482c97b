"""A process with one workload on one backend: `region_worker.py WORKLOAD MODE BACKEND` answers "M N" with seconds for N
calls, enqueued one after the other and waited for at the end, the last result, and the peak of TensorFlow's memory
since the last answer. M calls go before that are not timed: other processes have had the GPU."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from tools.benchmark.workers import serve


def start(workload: str, mode: str, backend: str) -> Callable[..., dict[str, Any]]:
    import numpy as np
    import tensorflow as tf

    from tools.benchmark.region_cases import make_step

    step = make_step(workload, mode, backend)

    def answer(warm_up: str, calls: str) -> dict[str, Any]:
        result: Any = None
        for _ in range(int(warm_up)):
            result = step()
        np.asarray(result)
        begin = time.perf_counter()
        for _ in range(int(calls)):
            result = step()
        value = np.asarray(result)
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "result": float(np.sqrt(np.mean(np.square(value, dtype=np.float64)))),
                **_memory(tf), **_graphs(backend)}  # fmt: skip

    return answer


def _memory(tf: Any) -> dict[str, int]:
    if not tf.config.list_physical_devices("GPU"):
        return {}
    peak = int(tf.config.experimental.get_memory_info("GPU:0")["peak"])
    tf.config.experimental.reset_memory_stats("GPU:0")
    return {"peak_bytes": peak}


def _graphs(backend: str) -> dict[str, Any]:
    """What the native op says of its CUDA graphs."""
    if backend != "tf_stitch":
        return {}
    from tf_stitch.native import bindings

    library = bindings._loaded
    return {} if library is None else {"graphs": [asdict(record) for record in library.graphs()]}


if __name__ == "__main__":
    serve(lambda: start(*sys.argv[1:]))
