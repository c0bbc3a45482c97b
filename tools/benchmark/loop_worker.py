"""A process with one of Keras' own loops: `loop_worker.py NETWORK LOOP BATCH STEPS` answers as TimedCalls, a call being
BATCHES batches: `fit` and `predict` with STEPS steps an execution, or `train_on_batch`, under Keras' own defaults.

On TensorFlow Keras has XLA compile what it can (`jit_compile="auto"`), under JAX all of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from tools.benchmark.networks import built
from tools.benchmark.timed_calls import TimedCalls
from tools.benchmark.workers import refuse, serve

BATCHES = 64
"""Of a call."""

LOOPS = ("fit", "predict", "train_on_batch")


def start(name: str, loop: str, batch: str, steps: str) -> TimedCalls:
    if os.environ.get("KERAS_BACKEND") == "jax":
        refuse("tensorflow")
    import keras
    import numpy as np

    keras.utils.set_random_seed(0)
    network = built(name).network
    network.model.compile(optimizer=network.optimizer, loss=network.loss, steps_per_execution=int(steps))
    wanted, *given = network.batch(BATCHES * int(batch))
    call = _call(network.model, loop, wanted, given if len(given) > 1 else given[0], int(batch))
    return TimedCalls(call, lambda _: None, lambda found: np.asarray([found]), dict, lambda call, calls: {})


def _call(model: Any, loop: str, wanted: Any, given: Any, batch: int) -> Callable[[], float]:
    """An epoch; the last loss, or the mean of what is predicted."""
    import keras

    def fit() -> float:
        history = model.fit(given, wanted, batch_size=batch, shuffle=False, verbose=0,
                            callbacks=[keras.callbacks.TerminateOnNaN()])
        return float(history.history["loss"][-1])

    def predict() -> float:
        return float(model.predict(given, batch_size=batch, verbose=0).mean())

    def train_on_batch() -> float:
        found = 0.0
        for begin in range(0, BATCHES * batch, batch):
            part = slice(begin, begin + batch)
            found = model.train_on_batch(
                [x[part] for x in given] if isinstance(given, list) else given[part], wanted[part])
        return float(found)

    return {"fit": fit, "predict": predict, "train_on_batch": train_on_batch}[loop]


if __name__ == "__main__":
    serve(lambda: start(*sys.argv[1:]))
