"""A process with the op library and nothing else of tf_stitch: `reload_worker.py OP_LIBRARY` answers "FOLDER SIGNATURE"
by loading FOLDER/original and FOLDER/converted and running both on FOLDER/samples.npz. Writes their outputs to
FOLDER/original.npz and FOLDER/converted.npz, and says how many regions ran by kernels and by their own nodes."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from tools.benchmark.workers import refuse, serve


def start(library: str) -> Callable[..., dict[str, Any]]:
    import numpy as np
    import tensorflow as tf

    refuse("tf_stitch")
    tf.load_op_library(library)
    stat = ctypes.CDLL(library).tfs_stat
    stat.restype = ctypes.c_int64

    def answer(folder: str, name: str) -> dict[str, Any]:
        arrays = np.load(f"{folder}/samples.npz")
        before = [stat(0), stat(3)]
        for form in ("original", "converted"):
            model = tf.saved_model.load(f"{folder}/{form}")
            outputs = model.signatures[name](**{key: tf.constant(arrays[key]) for key in arrays.files})
            np.savez(f"{folder}/{form}.npz", **{key: value.numpy() for key, value in outputs.items()})
        return {"runs": stat(0) - before[0], "fallbacks": stat(3) - before[1]}

    return answer


if __name__ == "__main__":
    serve(lambda: start(*sys.argv[1:]))
