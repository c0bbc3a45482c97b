"""A process of tools.memory_peaks: trains one network by one framework and counts bytes."""

from __future__ import annotations

import time
from typing import Any

from tools.benchmark.networks import built


class Memory:
    """Bytes that a framework's allocator has handed out on the first device.

    Attributes:
        starts_anew: the most is that of each call; else, as in JAX, from the start on.
    """

    def __init__(self, backend: str) -> None:
        self.starts_anew = backend != "jax"

    def used(self) -> int:
        """Now."""
        return self._counts()[0]

    def most(self) -> int:
        """At most since it was asked last."""
        return self._counts()[1]

    def _counts(self) -> tuple[int, int]:
        if not self.starts_anew:
            import jax

            stats = jax.devices()[0].memory_stats()
            return stats["bytes_in_use"], stats["peak_bytes_in_use"]
        import tensorflow as tf

        info = tf.config.experimental.get_memory_info("GPU:0")
        tf.config.experimental.reset_memory_stats("GPU:0")
        return info["current"], info["peak"]


def trained(case: str, backend: str, calls: int, device_mib: int = 0) -> dict[str, Any]:
    """Trains in this process.

    Args:
        device_mib: memory that the device has; 0: all that is there.
    """
    import keras
    import numpy as np
    import tensorflow as tf

    for gpu in tf.config.list_physical_devices("GPU"):
        if device_mib:
            tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(device_mib)])
        else:
            tf.config.experimental.set_memory_growth(gpu, True)
    if backend == "jax":
        tf.config.set_visible_devices([], "GPU")
    keras.utils.set_random_seed(0)
    network, _, batch = built(case)
    arguments = tuple(map(keras.ops.convert_to_tensor, network.batch(batch)))
    if backend == "jax":
        from tools.benchmark.jax_step import train_step

        step = train_step(network)
    else:
        step = tf.function(network.train, autograph=False, jit_compile=True if backend == "xla" else None)
    memory = Memory(backend)
    before, peaks, seconds = memory.used(), [], []
    for _ in range(calls):
        start = time.perf_counter()
        loss = float(np.asarray(step(*arguments)))
        seconds.append(time.perf_counter() - start)
        peaks.append(memory.most())
    return {"before": before, "peaks": peaks, "seconds": seconds, "loss": loss, "by_call": memory.starts_anew}
