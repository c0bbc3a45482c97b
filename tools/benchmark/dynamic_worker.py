"""An encoder that meets requests of many lengths: `dynamic_worker.py BACKEND DEVICE LAYERS WIDTH HEADS BATCH` answers
"length seed" with seconds until the result is on the host, and some of its numbers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tools.benchmark.workers import serve


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


def start(backend: str, device: str, *sizes: str) -> Callable[..., dict[str, Any]]:
    import tensorflow as tf

    layers, width, heads, batch = map(int, sizes)
    place = "/GPU:0" if device == "gpu" else "/CPU:0"
    with tf.device(place):
        run = make_encoder(backend, layers, width, heads, batch)

    def answer(length: str, seed: str) -> dict[str, Any]:
        values = np.random.default_rng(int(seed)).standard_normal((batch, int(length), width)).astype(np.float32)
        with tf.device(place):
            x = tf.constant(values)
            begin = time.perf_counter()
            y = run(x).numpy()  # type: ignore[attr-defined]
        seconds = time.perf_counter() - begin
        sample = y.reshape(-1)[:: max(1, y.size // 16)][:16]
        return {"seconds": seconds, "sample": sample.tolist()}

    return answer


if __name__ == "__main__":
    serve(lambda: start(*sys.argv[1:]))
