"""A process with one network on one backend: `network_worker.py CASE BACKEND` answers "M N" with milliseconds of each
of N calls after M that are not timed, the last result, and the peak of memory since the last answer (worker.py); "M N
profile" with what TensorFlow's profiler saw on the device in N calls after M."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from tools.benchmark.kernel_counts import profiled
from tools.benchmark.network_cases import CASES
from tools.benchmark.worker import peak_memory
from tools.benchmark.workers import serve


def start(case: str, backend: str) -> Callable[..., dict[str, Any]]:
    import keras
    import numpy as np
    import tensorflow as tf

    from models import kinds, language, lstm, vision
    from models.kinds.objective import given

    name, mode, batch, policy, size = CASES[case]
    keras.utils.set_random_seed(0)
    keras.mixed_precision.set_global_policy(policy)
    others: Any = next(module for module in (language, lstm, kinds) if size or name in module.NAMES)
    network: Any = vision.build(name, size) if size else others.build(name)
    arguments = tuple(map(tf.constant, network.batch(batch)))
    step = tf.function(getattr(network, mode), autograph=False, jit_compile=True if backend == "xla" else None)
    if mode == "infer":
        arguments = given(network, arguments)

    def answer(warm_up: str, calls: str, profile: str = "") -> dict[str, Any]:
        begin = time.perf_counter()
        result: Any = None
        for _ in range(int(warm_up)):
            result = step(*arguments)
            if not int(calls):  # the profitability check reads its times when they are there
                tf.test.experimental.sync_devices()
        tf.test.experimental.sync_devices()  # timed calls find what calls that nobody waits for have left
        warm = time.perf_counter() - begin
        if profile:
            return profiled(lambda: (step(*arguments), tf.test.experimental.sync_devices()), int(calls))
        begin = time.perf_counter()
        for _ in range(int(calls)):
            result = step(*arguments)
        tf.test.experimental.sync_devices()
        seconds = time.perf_counter() - begin
        value = np.asarray(tf.nest.flatten(result)[-1]).astype(np.float64) if int(calls) else np.zeros(1)
        return {"ms": seconds * 1e3 / max(int(calls), 1), "warm_up_s": warm,
                "result": float(np.sqrt(np.mean(np.square(value)))), **peak_memory()}  # fmt: skip

    return answer


if __name__ == "__main__":
    serve(lambda: start(*sys.argv[1:]))
