"""A process that calls one function of many small variables: `call_worker.py VARIABLES MODE HOLDS` answers "M N" with
microseconds of a call, the mean of N that follow M, until the result is there. MODE is infer or train; HOLDS is whether
functions hold their variables, where tf_stitch is on."""

from __future__ import annotations

import sys
import time
from typing import Any

from tools.benchmark.workers import serve


def start(variables: str, mode: str, holds: str) -> Any:
    import tensorflow as tf

    if not int(holds):
        import tf_stitch.plugin.held_variables as held_variables

        held_variables.LEAST = sys.maxsize
    step, x = function(int(variables), mode == "train"), tf.random.normal([8])

    def answer(before: str, timed: str) -> dict[str, Any]:
        for _ in range(int(before)):
            result = step(x)
        begin = time.perf_counter()
        for _ in range(int(timed)):
            result = step(x)
            result.numpy()
        return {"us": (time.perf_counter() - begin) / int(timed) * 1e6}

    return answer


def function(count: int, train: bool) -> Any:
    """Of 8 elements, through as many variables of 8 elements, which training writes."""
    import tensorflow as tf

    variables = [tf.Variable(tf.random.normal([8])) for _ in range(count)]

    @tf.function
    def step(x: Any) -> Any:
        for variable in variables:
            x = tf.tanh(x) * variable
        for variable in variables if train else ():
            variable.assign_sub(0.001 * x)
        return x

    return step


if __name__ == "__main__":
    serve(lambda: start(*sys.argv[1:]))
