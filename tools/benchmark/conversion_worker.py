"""A process with one SavedModel, the op library and nothing else of tf_stitch: `conversion_worker.py OP_LIBRARY MODEL
SIGNATURE INPUTS.npz` answers N with the seconds of N calls, how long loading it once more took, and how many regions
ran by kernels and by their own nodes."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from typing import Any

from tools.benchmark.workers import refuse, serve

WARM_UP = 3


def start(library: str, model: str, name: str, file: str) -> Callable[..., dict[str, Any]]:
    import numpy as np
    import tensorflow as tf

    refuse("tf_stitch")
    tf.load_op_library(library)
    arrays = np.load(file)
    inputs = {key: tf.constant(arrays[key]) for key in arrays.files}
    loaded = tf.saved_model.load(model)
    signature = loaded.signatures[name]
    stat = ctypes.CDLL(library).tfs_stat
    stat.restype = ctypes.c_int64

    def call() -> float:
        begin = time.perf_counter()
        for value in signature(**inputs).values():
            value.numpy()
        return time.perf_counter() - begin

    first = call()

    def answer(calls: str) -> dict[str, Any]:
        begin = time.perf_counter()
        tf.saved_model.load(model)
        load = time.perf_counter() - begin
        for _ in range(WARM_UP):
            call()
        return {"seconds": [call() for _ in range(int(calls))], "load": load, "first": first, "runs": stat(0),
                "fallbacks": stat(3)}

    return answer


if __name__ == "__main__":
    serve(lambda: start(*sys.argv[1:]))
