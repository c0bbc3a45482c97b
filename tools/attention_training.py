"""Times attention in training on a GPU: each kernel of a forward and backward pass, and a train step of GPT-2 with
scores in memory, with gradients that compute them anew, and by a library's fused kernels.

    python -m tools.attention_training kernels
    python -m tools.attention_training model --layers=12 --batch=16 --length=256 --policy=mixed_bfloat16
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

SHAPES = ((16, 12, 256, 64), (8, 12, 512, 64), (4, 16, 1024, 64), (32, 12, 197, 64), (4, 16, 512, 128))
"""Batch, heads, length, size of a head."""
TYPES = ("bfloat16", "float32")


def kernels() -> None:
    """Microseconds of the three kernels, chosen or not, and what the cost model predicts."""
    import cupy

    from tests.differential.attention_steps import Step, all_copies, masked
    from tests.differential.runner import cache, compiled, random_values
    from tf_stitch.device.spec import H200
    from tf_stitch.ir.dtypes import DType
    from tf_stitch.passes import private_copies
    from tf_stitch.planning.cost_model import predict_us
    from tf_stitch.runtime.device_run import DeviceExecutable, queued_us
    from tf_stitch.runtime.nvrtc_builder import build_cuda

    vars(private_copies)["attention_copies"] = all_copies
    for dtype in TYPES:
        for batch, heads, length, size in SHAPES:
            graph = Step(DType(dtype), batch, length, length, heads, size, score=masked).graph()
            built = compiled(graph, H200)
            start = time.perf_counter()
            cubin = build_cuda(built.source, "90", cache())
            seconds = time.perf_counter() - start
            memory = {key: cupy.asarray(x.reshape(-1).view("uint8")) for key, x in random_values(graph).items()}
            if len(built.executable.steps) != len(built.kernels):
                print(f"{dtype} {batch}x{heads}x{length}x{size}: the forward pass is the library's", flush=True)
                continue
            run = DeviceExecutable(built.executable, cubin, memory, {})
            parts = []
            for step, kernel in zip(run._steps, built.kernels, strict=True):
                parts.append(f"{kernel.schedule.family} {queued_us(step):.1f} ({predict_us(kernel.program, H200):.1f})")
            print(f"{dtype} {batch}x{heads}x{length}x{size}: {', '.join(parts)} us measured (predicted); "
                  f"{seconds:.1f} s to compile", flush=True)


def model(layers: int, width: int, heads: int, batch: int, length: int, policy: str, dropout: float, seconds: float
          ) -> None:
    """Milliseconds of a train step, in turns, and peak bytes."""
    os.environ.setdefault("TF_STITCH", "1")
    os.environ.setdefault("TF_STITCH_GUARD", "0")
    import tensorflow as tf

    from tf_stitch.passes import attentions_to_calls, private_copies

    copies = vars(private_copies)["attention_copies"]
    calls = vars(attentions_to_calls)["attentions_to_call"]
    net = _network(layers, width, heads, length, policy, dropout)
    ids = tf.random.uniform((batch, length), 0, 50257, tf.int32, seed=1)
    steps: dict[str, Callable[[Any], Any]] = {}
    has_gpu = bool(tf.config.list_physical_devices("GPU"))
    for scale, name in ((1.5, "scores in memory"), (1.25, "scores computed anew"), (0.75, "a library's calls")):
        steps[name] = _step(net, scale)
    for name, step in steps.items():
        vars(private_copies)["attention_copies"] = copies if name == "scores computed anew" else lambda graph, times: []
        vars(attentions_to_calls)["attentions_to_call"] = calls if name == "a library's calls" else (
            lambda graph, device, times: [])
        if has_gpu:
            tf.config.experimental.reset_memory_stats("GPU:0")
        start = time.perf_counter()
        losses = [float(step(ids)) for _ in range(5)]
        peak = tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**20 if has_gpu else 0
        print(f"{name}: five steps in {time.perf_counter() - start:.1f} s, losses {losses}, peak {peak:.0f} MiB",
              flush=True)
    taken: dict[str, list[float]] = {name: [] for name in steps}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, step in steps.items():
            start = time.perf_counter()
            for _ in range(5):
                loss = step(ids)
            float(loss)
            taken[name].append((time.perf_counter() - start) * 200)
    for name, times in taken.items():
        print(f"{name}: median {median(times):.2f} ms, best {min(times):.2f} ms of {len(times)}", flush=True)


def _network(layers: int, width: int, heads: int, length: int, policy: str, dropout: float) -> Any:
    import keras

    keras.mixed_precision.set_global_policy(policy)
    keras.utils.set_random_seed(1)
    ids = keras.Input((length,), dtype="int32")
    x = keras.layers.Embedding(50257, width)(ids)
    for _ in range(layers):
        y = keras.layers.LayerNormalization()(x)
        x = x + keras.layers.MultiHeadAttention(heads, width // heads, dropout=dropout)(y, y, use_causal_mask=True)
        y = keras.layers.LayerNormalization()(x)
        x = x + keras.layers.Dense(width)(keras.layers.Dense(4 * width, activation="gelu")(y))
    return keras.Model(ids, keras.layers.LayerNormalization()(x))


def _step(net: Any, scale: float) -> Callable[[Any], Any]:
    """A step of its own; losses of another scale are another graph."""
    import keras
    import tensorflow as tf

    optimizer = keras.optimizers.Adam(1e-4)
    optimizer.build(net.trainable_variables)

    @tf.function  # type: ignore[untyped-decorator]
    def step(ids: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.cast(net(ids, training=True), tf.float32))) * scale
        gradients = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
        return loss / scale

    return step  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["kernels", "model"])
    for name, default in (("layers", 12), ("width", 768), ("heads", 12), ("batch", 16), ("length", 256)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--policy", default="mixed_bfloat16")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=8.0)
    given = parser.parse_args()
    if given.what == "kernels":
        kernels()
    else:
        model(given.layers, given.width, given.heads, given.batch, given.length, given.policy, given.dropout,
              given.seconds)


if __name__ == "__main__":
    main()
