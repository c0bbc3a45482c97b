"""A process that trains one network by Keras' `fit` on so many devices: `replica_worker.py CASE REPLICAS` answers "M N"
with milliseconds of a step, the mean of N steps that follow M (one at least) in an epoch, and the last loss."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from tools.benchmark.network_cases import CASES, NetworkCase
from tools.benchmark.workers import serve


def start(case: str, replicas: str) -> Callable[..., dict[str, Any]]:
    return trainer(CASES[case], int(replicas))


def trainer(case: NetworkCase, replicas: int) -> Callable[..., dict[str, Any]]:
    """What answers. Each replica has the case's batch.

    Raises:
        ValueError: there are not so many devices.
    """
    import keras
    import tensorflow as tf

    from models import language, vision

    devices = [d.name.removeprefix("/device:") for d in
               tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")]
    if len(devices) < replicas:
        raise ValueError(f"{replicas} replicas on {len(devices)} devices")
    keras.utils.set_random_seed(0)
    keras.mixed_precision.set_global_policy(case.policy)
    strategy = tf.distribute.MirroredStrategy(devices[:replicas]) if replicas > 1 else tf.distribute.get_strategy()
    with strategy.scope():
        network = vision.build(case.network, case.size) if case.size else language.build(case.network)
        network.model.compile(network.optimizer, network.loss, jit_compile=False)
    wanted, *given = network.batch(case.batch * replicas)

    class Ends(keras.callbacks.Callback):  # type: ignore[misc]
        """When each step's result was there. Keras calls it beside the steps, as it reads their results anyway."""

        async_safe = True

        def __init__(self) -> None:
            super().__init__()
            self.times: list[float] = []

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.times.append(time.perf_counter())

    def answer(before: str, steps: str) -> dict[str, Any]:
        """An epoch begins and ends with work of its own, of many milliseconds and never the same: it is not counted."""
        data = tf.data.Dataset.from_tensors((given[0] if len(given) == 1 else tuple(given), wanted))
        ends, begin = Ends(), time.perf_counter()
        found = network.model.fit(data.cache().repeat(), epochs=1, steps_per_epoch=int(before) + int(steps), verbose=0,
                                  callbacks=[ends])
        times = sorted(ends.times)
        ms = (times[-1] - times[int(before) - 1]) * 1e3 / int(steps) if int(steps) else 0.0
        return {"ms": ms, "warm_up_s": times[int(before) - 1] - begin, "loss": float(found.history["loss"][-1])}

    return answer


if __name__ == "__main__":
    serve(lambda: start(*sys.argv[1:]))
