"""A process that decodes on one backend: `decode_worker.py CONFIG BATCH SAMPLER TF32 POLICY BACKEND` answers "N" with
the seconds of each of N calls, by the clock and of processors, and the texts."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tools.benchmark.workers import serve


def start(config: str, batch: str, sampler: str, tf32: str, policy: str, backend: str) -> Callable[..., dict[str, Any]]:
    import keras
    import numpy as np
    import tensorflow as tf

    from models.decoding import CONFIGS, LanguageModel, data

    tf.config.experimental.enable_tensor_float_32_execution(tf32 == "True")
    keras.mixed_precision.set_global_policy(policy)
    sizes = replace(CONFIGS[config], batch=int(batch))
    keras.utils.set_random_seed(1)
    given = {name: tf.constant(value) for name, value in data(sizes, np.random.default_rng(1)).infer[0].items()}
    model = LanguageModel(sizes)
    model.train_loss({name: value[:1] for name, value in given.items()})  # makes the variables
    decode = tf.function(lambda batch: model.go_on(batch, getattr(model, sampler)),
                         jit_compile=backend == "xla" or None, autograph=False)

    def answer(calls: str) -> dict[str, Any]:
        seconds, processor, texts = [], [], np.zeros(0)
        for _ in range(int(calls)):
            begin, busy = time.perf_counter(), time.process_time()
            texts = decode(given).numpy()
            seconds.append(time.perf_counter() - begin)
            processor.append(time.process_time() - busy)
        return {"seconds": seconds, "processor": processor, "texts": texts.tolist()}

    return answer


if __name__ == "__main__":
    serve(lambda: start(*sys.argv[1:]))
