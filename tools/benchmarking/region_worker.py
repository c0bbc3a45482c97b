"""A process with one workload on one backend. `region_worker.py WORKLOAD MODE BACKEND` reads "run M N" lines and
answers each with JSON: seconds for N calls, enqueued one after the other and waited for at the end, and the last
result. M calls go before that are not timed: other processes have had the GPU."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def main(workload: str, mode: str, backend: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what TensorFlow prints is no answer
    import numpy as np
    import tensorflow as tf

    from benchmarking.region_cases import make_step

    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    step = make_step(workload, mode, backend)
    for line in sys.stdin:
        warm_up, calls = map(int, line.split()[1:])
        result: Any = None
        for _ in range(warm_up):
            result = step()
        np.asarray(result)
        start = time.perf_counter()
        for _ in range(calls):
            result = step()
        value = np.asarray(result)
        seconds = time.perf_counter() - start
        answer = {"seconds": seconds, "result": float(np.sqrt(np.mean(np.square(value, dtype=np.float64)))),
                  **_memory(tf), **_graphs(backend)}  # fmt: skip
        print(json.dumps(answer), file=answers, flush=True)


def _memory(tf: Any) -> dict[str, int]:
    if not tf.config.list_physical_devices("GPU"):
        return {}
    return {"peak_bytes": int(tf.config.experimental.get_memory_info("GPU:0")["peak"])}


def _graphs(backend: str) -> dict[str, Any]:
    """What the native op says of its CUDA graphs."""
    if backend != "tf_stitch":
        return {}
    from tf_stitch.native import bindings

    library = bindings._loaded
    return {} if library is None else {"graphs": [asdict(record) for record in library.graphs()]}


if __name__ == "__main__":
    main(*sys.argv[1:])
