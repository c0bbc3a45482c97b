"""A process with one network on one backend of TensorFlow: `network_worker.py CASE BACKEND` answers as TimedCalls."""

from __future__ import annotations

import sys
from typing import Any

from tools.benchmark.kernel_counts import profiled
from tools.benchmark.networks import built
from tools.benchmark.timed_calls import TimedCalls, looked_at
from tools.benchmark.worker import peak_memory
from tools.benchmark.workers import serve


def start(case: str, backend: str) -> TimedCalls:
    import keras
    import numpy as np
    import tensorflow as tf

    from models.kinds.objective import given

    keras.utils.set_random_seed(0)
    network, mode, batch = built(case)
    arguments = tuple(map(tf.constant, network.batch(batch)))
    step = tf.function(getattr(network, mode), autograph=False, jit_compile=True if backend == "xla" else None)
    if mode == "infer":
        arguments = given(network, arguments)

    def values(result: Any) -> Any:
        return looked_at(np.asarray(tf.nest.flatten(result)[-1]))

    return TimedCalls(lambda: step(*arguments), lambda _: tf.test.experimental.sync_devices(), values, peak_memory,
                      profiled)


if __name__ == "__main__":
    serve(lambda: start(*sys.argv[1:]))
