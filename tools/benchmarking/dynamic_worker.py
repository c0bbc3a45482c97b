"""An encoder that meets requests of many lengths. `dynamic_worker.py BACKEND DEVICE LAYERS WIDTH HEADS BATCH` reads
lines "length seed" and answers each with JSON: seconds until the result is on the host, and some of its numbers."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

import numpy as np


def make_encoder(backend: str, layers: int, width: int, heads: int, batch: int) -> Callable[..., object]:
    """A function from [batch, length, width] to the encoder's output of the same shape."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(1)
    x = given = keras.Input((None, width), batch)
    for _ in range(layers):
        normal = keras.layers.LayerNormalization()(x)
        x = x + keras.layers.MultiHeadAttention(heads, width // heads, flash_attention=False)(normal, normal)
        normal = keras.layers.LayerNormalization()(x)
        x = x + keras.layers.Dense(width)(keras.layers.Dense(4 * width, "gelu")(normal))
    model = keras.Model(given, keras.layers.LayerNormalization()(x))

    @tf.function(input_signature=[tf.TensorSpec([batch, None, width])], jit_compile=backend == "xla" or None)
    def run(x: tf.Tensor) -> tf.Tensor:
        return model(x, training=False)

    return run


def main(backend: str, device: str, *sizes: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what TensorFlow prints is no answer
    import tensorflow as tf

    layers, width, heads, batch = map(int, sizes)
    with tf.device("/GPU:0" if device == "gpu" else "/CPU:0"):
        run = make_encoder(backend, layers, width, heads, batch)
        for line in sys.stdin:
            length, seed = map(int, line.split())
            x = tf.constant(np.random.default_rng(seed).standard_normal((batch, length, width)).astype(np.float32))
            start = time.perf_counter()
            y = run(x).numpy()  # type: ignore[attr-defined]
            seconds = time.perf_counter() - start
            sample = y.reshape(-1)[::max(1, y.size // 16)][:16]
            print(json.dumps({"seconds": seconds, "sample": sample.tolist()}), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
