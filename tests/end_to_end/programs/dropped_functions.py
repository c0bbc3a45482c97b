"""Traces, runs and drops functions that share nothing. Prints JSON: kB by which each, after a first lot, has made grow
the process, what malloc has given out, and Python's objects (with "trace")."""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import time
import tracemalloc

import numpy as np
import tensorflow as tf

first, count = int(sys.argv[1]), int(sys.argv[2])
traced = "trace" in sys.argv[3:]


def run(number: int) -> None:
    rows, columns = 8 + number % 50, 16 + number
    scale = tf.constant(1.0 + number / 7, tf.float32)
    weights = tf.Variable(tf.ones([columns]))

    @tf.function
    def function(x: tf.Tensor) -> tf.Tensor:
        y = tf.nn.softmax(x * weights * scale + np.float32(number)) + tf.tanh(x)
        y = y - tf.reduce_mean(y, axis=-1, keepdims=True)
        weights.assign(weights * 0.5 + tf.reduce_mean(y, axis=0))
        return tf.reduce_sum(y * tf.math.rsqrt(tf.reduce_mean(y * y, axis=-1, keepdims=True) + 1e-3), axis=1)

    for _ in range(3):
        function(tf.ones([rows, columns]))


class Mallinfo2(ctypes.Structure):
    """See malloc.h."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks",
                                                     "fsmblks", "uordblks", "fordblks", "keepcost")]


def memory() -> tuple[float, float]:
    """kB of the process, and of what malloc has given out, after everything was given back that can be."""
    gc.collect()
    time.sleep(1)
    gc.collect()
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = Mallinfo2
    info = libc.mallinfo2()
    libc.malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4.0, (info.uordblks + info.hblkhd) / 1024


for i in range(first):
    run(i)
before = memory()
if traced:
    tracemalloc.start()
    start = tracemalloc.take_snapshot()
for i in range(first, first + count):
    run(i)
resident, given_out = ((now - then) / count for now, then in zip(memory(), before, strict=True))
python = 0.0
if traced:
    end = tracemalloc.take_snapshot()
    differences = end.compare_to(start, "lineno")
    python = sum(d.size_diff for d in differences) / 1024 / count
    for difference in differences[:25]:
        print(difference, file=sys.stderr)
print(json.dumps({"resident": round(resident, 2), "malloc": round(given_out, 2), "python": round(python, 2)}))
