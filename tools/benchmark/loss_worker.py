"""A process with one network on one backend: `loss_worker.py CASE BACKEND` answers "SEED STEPS" with the losses of so
many steps from the same initial weights and the same batches. With a seed other than 0 each weight begins one unit in
the last place of the half type up or down, as the seed draws it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.benchmark.loss_cases import CASES
from tools.benchmark.workers import serve

BATCHES = 4
"""Different ones, in turns."""


def moved(value: NDArray[Any], half: Any, random: np.random.Generator) -> NDArray[Any]:
    """Each element one unit in the last place of the type `half` up or down."""
    near = value.astype(half)
    ends = np.where(random.integers(0, 2, value.shape) == 1, np.inf, -np.inf).astype(half)
    step: NDArray[Any] = np.nextafter(near, ends).astype(np.float64) - near.astype(np.float64)
    return (value + step).astype(value.dtype)


def start(case: str, backend: str) -> Callable[..., dict[str, Any]]:
    import keras
    import tensorflow as tf

    from models import language, vision

    name, policy, config, size, batch = CASES[case]
    keras.utils.set_random_seed(0)
    keras.mixed_precision.set_global_policy(policy)
    network = vision.build(name, size) if size else language.build(name, config)
    half = tf.as_dtype(keras.config.dtype_policy().compute_dtype).as_numpy_dtype
    batches = [tuple(map(tf.constant, network.batch(batch, seed))) for seed in range(BATCHES)]
    step = tf.function(network.train, autograph=False, jit_compile=True if backend == "xla" else None)
    variables = [*network.model.variables, *network.optimizer.variables]
    weights = {id(weight) for weight in network.model.trainable_variables}
    initial = [np.asarray(variable) for variable in variables]

    def answer(seed: str, steps: str) -> dict[str, Any]:
        random = np.random.default_rng(int(seed))
        for variable, value in zip(variables, initial, strict=True):
            variable.assign(moved(value, half, random) if int(seed) and id(variable) in weights else value)
        return {"losses": [float(step(*batches[i % BATCHES])) for i in range(int(steps))]}

    return answer


if __name__ == "__main__":
    serve(lambda: start(*sys.argv[1:]))
