"""A process with one convolutional network of Keras on one backend: `conv_worker.py MODEL MODE BATCH POLICY BACKEND`
answers "M N" with milliseconds of each of N calls after M that are not timed, and the last result."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from tools.benchmark.workers import serve


def start(model: str, mode: str, batch: str, policy: str, backend: str) -> Callable[..., dict[str, Any]]:
    import keras
    import numpy as np
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    keras.mixed_precision.set_global_policy(policy)
    network = getattr(keras.applications, model)(weights=None)
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    optimizer.build(network.trainable_variables)
    random = np.random.default_rng(0)
    images = tf.constant(random.standard_normal((int(batch), *network.input_shape[1:])), tf.float32)
    labels = tf.constant(random.integers(0, 1000, int(batch)))

    def train() -> Any:
        with tf.GradientTape() as tape:
            probabilities = tf.cast(network(images, training=True), tf.float32)
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(labels, probabilities))
        optimizer.apply(tape.gradient(loss, network.trainable_variables), network.trainable_variables)
        return loss

    def infer() -> Any:
        return network(images, training=False)

    step = tf.function(train if mode == "train" else infer, jit_compile=True if backend == "xla" else None)

    def answer(warm_up: str, calls: str) -> dict[str, Any]:
        begin = time.perf_counter()
        result: Any = None
        for _ in range(int(warm_up)):
            result = step()
        if result is not None:
            np.asarray(result)
        warm = time.perf_counter() - begin
        begin = time.perf_counter()
        for _ in range(int(calls)):
            result = step()
        value = np.asarray(result).astype(np.float64)
        seconds = time.perf_counter() - begin
        return {"ms": seconds * 1e3 / max(int(calls), 1), "warm_up_s": warm,
                "result": float(np.sqrt(np.mean(np.square(value))))}  # fmt: skip

    return answer


if __name__ == "__main__":
    serve(lambda: start(*sys.argv[1:]))
