"""GPT-2 of 6 x 768 with random weights: inputs for decoder.cu, and a word's logits in float64."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tools.persistent_kernels.programs import Program, relative_error, write

WIDTH, HEADS, HEAD, LAYERS, VOCABULARY, CACHE = 768, 12, 64, 6, 50257, 96
SHAPES = ((3 * WIDTH, WIDTH), (WIDTH, WIDTH), (4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH))
WEIGHTS = LAYERS * 12 * WIDTH * WIDTH + VOCABULARY * WIDTH
EXTRAS = 9 * WIDTH + 4 * WIDTH
"""Biases of a layer, and scales and offsets of its norms."""
WORDS = 4
"""Words that a check decodes: the last ones for which the cache has room."""
TOLERANCE = {"float32": 1e-4, "bfloat16": 5e-2}
KINDS = ("qkv", "attention", "projection", "expand", "contract", "logits")
STAGES = ("inputs", "prepare", "multiply", "publish")
PARTS = [f"{block} {kind} {stage}" for block, kind, stage in product(("attends", "other"), KINDS, STAGES)]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Model:
    """Weights in float32 as the program has them: rows are columns of the matmuls."""

    weights: NDArray[np.float32]
    extras: NDArray[np.float32]
    cache: NDArray[np.float32]


def draw(folder: Path) -> Model:
    """Random weights, written for the program."""
    random = np.random.default_rng(0)
    weights = random.standard_normal(WEIGHTS, np.float32) * np.float32(0.04)
    extras = random.standard_normal(LAYERS * EXTRAS + 2 * WIDTH + CACHE * WIDTH, np.float32) * np.float32(0.02)
    for layer in range(LAYERS):
        extras[layer * EXTRAS + 9 * WIDTH : layer * EXTRAS + 10 * WIDTH] += 1
        extras[layer * EXTRAS + 11 * WIDTH : layer * EXTRAS + 12 * WIDTH] += 1
    extras[LAYERS * EXTRAS : LAYERS * EXTRAS + WIDTH] += 1
    cache = random.standard_normal((LAYERS, 2, HEADS, CACHE, HEAD), np.float32)
    model = Model(weights, extras, cache)
    write(folder, {"weights": weights, "extras": extras, "cache": cache})
    return model


def _norm(x: Array, given: Array) -> Array:
    normed: Array = (x - x.mean()) / np.sqrt(x.var() + 1e-5) * given[:WIDTH] + given[WIDTH:]
    return normed


def logits_of(model: Model, tokens: NDArray[np.int32], half: bool) -> Array:
    """Logits of the last word; the tokens are at the last positions of the cache."""

    def read(values: NDArray[np.float32]) -> Array:
        return (values.astype(ml_dtypes.bfloat16) if half else values).astype(np.float64)

    extras = model.extras.astype(np.float64)
    norms, where = extras[LAYERS * EXTRAS :], extras[LAYERS * EXTRAS + 2 * WIDTH :].reshape(CACHE, WIDTH)
    head = read(model.weights[LAYERS * 12 * WIDTH * WIDTH :]).reshape(VOCABULARY, WIDTH)
    cache = read(model.cache)
    layers = [_matrices(read(part)) for part in model.weights[: -head.size].reshape(LAYERS, -1)]
    x = np.zeros(WIDTH)
    for position, token in enumerate(tokens, CACHE - len(tokens)):
        x = head[token] + where[position]
        for layer, (qkv, projection, expand, contract) in enumerate(layers):
            given = extras[layer * EXTRAS : (layer + 1) * EXTRAS]
            b_qkv, b_projection, b_expand, b_contract, one, two = np.split(
                given, np.cumsum([3 * WIDTH, WIDTH, 4 * WIDTH, WIDTH, 2 * WIDTH])
            )
            q, k, v = (qkv @ _norm(x, one) + b_qkv).reshape(3, HEADS, HEAD)
            cache[layer, 0, :, position], cache[layer, 1, :, position] = k, v
            keys, values = cache[layer, :, :, : position + 1]
            scores = np.einsum("hd,hkd->hk", q, keys) / 8
            p = np.exp(scores - scores.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            x = x + projection @ np.einsum("hk,hkd->hd", p, values).ravel() + b_projection
            y = expand @ _norm(x, two) + b_expand
            y = y / (1 + np.exp(-1.5957691216057308 * (y + 0.044715 * y**3)))
            x = x + contract @ y + b_contract
    logits: Array = head @ _norm(x, norms[: 2 * WIDTH])
    return logits


def _matrices(part: Array) -> list[Array]:
    cuts = np.cumsum([rows * terms for rows, terms in SHAPES])[:-1]
    return [matrix.reshape(shape) for matrix, shape in zip(np.split(part, cuts), SHAPES, strict=True)]


def error_of(program: Program, variant: str, model: Model, wanted: dict[str, Array]) -> float | None:
    """How far the last word's logits are from float64's for the words that the variant chose; None if it failed.
    `wanted` keeps those of each type and text."""
    if program.run("check", [variant]) is None:
        return None
    tokens = np.fromfile(program.folder / f"{variant}.tokens", np.int32)[-WORDS:]
    kind = variant.partition(":")[0]
    key = f"{kind} {tokens.tolist()}"
    if key not in wanted:
        wanted[key] = logits_of(model, tokens, kind == "bfloat16")
    return relative_error(np.fromfile(program.folder / f"{variant}.logits", np.float32), wanted[key])
