"""Two LSTM layers of 256, batch 32, 100 steps: inputs for recurrent.cu and what it has to give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tools.persistent_kernels.programs import Program, relative_error, write

BATCH, STEPS, WIDTH = 32, 100, 256
TOLERANCE = {"float32": 2e-5, "tf32": 2e-2, "bfloat16": 1e-1}
PARTS = ("wait", "multiply", "barrier", "sums", "cell", "handing on")
"""Of a round. What is not told apart is part of the last one."""

Array = NDArray[np.float64]


def _layer(inputs: Array, recurrent: Array) -> Array:
    """States of all steps, of x W + b of all steps."""
    h = c = np.zeros((BATCH, WIDTH))
    states = []
    for step in range(STEPS):
        i, f, g, o = np.split(inputs[:, step] + h @ recurrent, 4, axis=1)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        states.append(h)
    return np.stack(states, axis=1)


def draw(folder: Path) -> Array:
    """Writes inputs and weights; gives the states of the second layer in float64."""
    random = np.random.default_rng(0)
    x = random.standard_normal((BATCH, STEPS, WIDTH))
    w1, u1, w2, u2 = (random.uniform(-1, 1, (WIDTH, 4 * WIDTH)) * scale for scale in (0.07, 0.08, 0.07, 0.08))
    b1, b2 = random.standard_normal((2, 4 * WIDTH)) * 0.1
    inputs = (x @ w1 + b1).astype(np.float32)
    weights = np.stack([u1, w2, u2]).astype(np.float32)
    bias = b2.astype(np.float32)
    write(folder, {"inputs": inputs, "weights": weights, "bias": bias})
    first = _layer(inputs.astype(np.float64), weights[0].astype(np.float64))
    return _layer(first @ weights[1].astype(np.float64) + bias, weights[2].astype(np.float64))


def error_of(program: Program, variant: str, wanted: Array) -> float | None:
    """How far a variant is from float64; None if it failed."""
    if program.run("check", [variant]) is None:
        return None
    found = np.fromfile(program.folder / f"{variant}.outputs", np.float32).reshape(wanted.shape)
    return relative_error(found, wanted)
