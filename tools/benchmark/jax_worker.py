"""A process with one network under Keras on JAX, without TensorFlow: `jax_worker.py CASE` answers as TimedCalls.

The peak of memory is JAX's allocator's from the start on.
"""

from __future__ import annotations

import sys
from typing import Any

from tools.benchmark.device_time import device_time
from tools.benchmark.network_cases import CASES
from tools.benchmark.networks import DRAWN, built
from tools.benchmark.timed_calls import TimedCalls, looked_at
from tools.benchmark.workers import refuse, serve

FLAGS = ("--xla_gpu_enable_latency_hiding_scheduler=true", "--xla_gpu_exhaustive_tiling_search=true",
         "--xla_gpu_enable_cublaslt=true")  # fmt: skip
"""XLA's, for the fastest steps whatever compiling takes."""

_KERAS_ONLY = frozenset({"GPT2", "Llama", "BERT", "ViT", "T5", "MoE", "LSTM", "LSTMByCuDNN", "LSTMLanguage",
                         "LSTMLanguageByCuDNN"})


def has(name: str) -> bool:
    """It is one Keras model of Keras' own ops, which trains or infers."""
    if name.startswith(DRAWN):
        return True
    case = CASES[name]
    return case.mode != "backward" and bool(case.size or case.network in _KERAS_ONLY)


def start(case: str) -> TimedCalls:
    refuse("tensorflow")
    import jax
    import keras
    import numpy as np

    from tools.benchmark.jax_step import infer_step, train_step

    keras.utils.set_random_seed(0)
    network, mode, batch = built(case)
    wanted, *given = map(jax.numpy.asarray, network.batch(batch))
    step = train_step(network) if mode == "train" else infer_step(network)
    arguments = (wanted, *given) if mode == "train" else tuple(given)

    def values(result: Any) -> Any:
        return looked_at(np.asarray(jax.tree.leaves(result)[-1]))

    return TimedCalls(lambda: step(*arguments), jax.block_until_ready, values, _peak, device_time)


def _peak() -> dict[str, float]:
    """In MiB; nothing on a processor."""
    import jax

    stats = jax.devices()[0].memory_stats()
    return {} if stats is None else {"gpu_mib": stats["peak_bytes_in_use"] / 2**20}


if __name__ == "__main__":
    serve(lambda: start(*sys.argv[1:]))
