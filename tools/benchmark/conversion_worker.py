"""A process with one SavedModel: `conversion_worker.py OP_LIBRARY MODEL SIGNATURE INPUTS.npz` answers N with the
seconds of N calls, how long loading took, and how many regions ran by kernels and by their own nodes."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from typing import Any

from tools.benchmark.workers import serve

WARM_UP = 3


def start(library: str, model: str, name: str, file: str) -> Callable[..., dict[str, Any]]:
    import numpy as np
    import tensorflow as tf

    tf.load_op_library(library)
    arrays = np.load(file)
    inputs = {key: tf.constant(arrays[key]) for key in arrays.files}
    begin = time.perf_counter()
    signature = tf.saved_model.load(model).signatures[name]
    load = time.perf_counter() - begin
    stat = ctypes.CDLL(library).tfs_stat
    stat.restype = ctypes.c_int64

    def call() -> float:
        begin = time.perf_counter()
        for value in signature(**inputs).values():
            value.numpy()
        return time.perf_counter() - begin

    first = call()

    def answer(calls: str) -> dict[str, Any]:
        for _ in range(WARM_UP):
            call()
        return {"seconds": [call() for _ in range(int(calls))], "load": load, "first": first, "runs": stat(0),
                "fallbacks": stat(3)}

    return answer


if __name__ == "__main__":
    serve(lambda: start(*sys.argv[1:]))
