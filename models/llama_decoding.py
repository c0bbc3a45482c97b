"""Llama's layers decode as models/decoding.py does: rotary embeddings at the counter, keys that groups of heads share,
a cache of these (Touvron et al., 2023)."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers, ops

from models.block import Block
from models.decoding import BLOCKED, Config, Decoder, data
from models.program import Model
from models.script import main

CONFIGS = {
    "paper": Config(batch=1, given=1, length=97, layers=8, width=1024, heads=16, vocabulary=32000),
    "medium": Config(batch=1, given=1, length=49, layers=2, width=256, heads=4, vocabulary=4000),
    "small": Config(batch=2, given=3, length=12, layers=2, width=32, heads=4, vocabulary=120),
    "small_16": Config(batch=16, given=3, length=20, layers=1, width=32, heads=4, vocabulary=120),
}


class Layer(Block):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self._heads, self._groups, self._depth = heads, heads // 2, width // heads
        self.norms = [layers.RMSNormalization() for _ in range(2)]
        self.query, self.out, self.narrow = (layers.Dense(width, use_bias=False) for _ in range(3))
        self.key, self.value = (layers.Dense(self._groups * self._depth, use_bias=False) for _ in range(2))
        self.gate = layers.Dense(width * 8 // 3, "silu", use_bias=False)
        self.wide = layers.Dense(width * 8 // 3, use_bias=False)

    def call(self, x: Any, cache: Any, at: Any, turns: Any) -> Any:
        """As of models/decoding.py; `turns`: cosines and sines [n, 1, depth] at the places of x."""
        normed = self.norms[0](x)
        query = _turned(self._split(self.query(normed), self._heads), turns)
        key = _turned(self._split(self.key(normed), self._groups), turns)
        value = self._split(self.value(normed), self._groups)
        cached = [ops.slice_update(cache[:, i], [0, at, 0, 0], new) for i, new in enumerate((key, value))]
        keys, values = (ops.repeat(y, self._heads // self._groups, 2) for y in cached)
        scores = ops.einsum("bqhd,bkhd->bhqk", query, keys) * self._depth**-0.5
        n, length = x.shape[1], cache.shape[2]
        seen = ops.arange(length)[None] <= at + ops.arange(n)[:, None]
        mixed = ops.einsum("bhqk,bkhd->bqhd", ops.softmax(ops.where(seen, scores, BLOCKED)), values)
        x = x + self.out(ops.reshape(mixed, ops.shape(x)))
        normed = self.norms[1](x)
        return x + self.narrow(self.gate(normed) * self.wide(normed)), ops.stack(cached, axis=1)

    def _split(self, x: Any, heads: int) -> Any:
        return ops.reshape(x, (-1, x.shape[1], heads, self._depth))


def _turned(x: Any, turns: Any) -> Any:
    cosines, sines = turns
    first, second = ops.split(x, 2, -1)
    return x * cosines + ops.concatenate([-second, first], -1) * sines


class Llama(Decoder):
    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.decoders = [Layer(config.width, config.heads) for _ in range(config.layers)]
        self.norm, self.scores = layers.RMSNormalization(), layers.Dense(config.vocabulary, use_bias=False)
        depth = config.width // config.heads
        angles = np.arange(config.length)[:, None] / 10000 ** (np.arange(0, depth, 2) / depth)
        angles = np.concatenate([angles, angles], -1)[:, None]
        self._turns = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def logits(self, text: Any, cache: Any, at: Any) -> tuple[Any, Any]:
        x = self.words(text)
        shape = [text.shape[1], *self._turns[0].shape[1:]]
        turns = [ops.cast(ops.slice(ops.convert_to_tensor(table), [at, 0, 0], shape), x.dtype)
                 for table in self._turns]  # fmt: skip
        caches = []
        for i, layer in enumerate(self.decoders):
            x, new = layer(x, cache[:, i], at=at, turns=turns)
            caches.append(new)
        return self.scores(self.norm(x)), ops.stack(caches, axis=1)

    def cache(self, batch: Any) -> Any:
        config = self._config
        shape = (batch, config.layers, 2, config.length, config.heads // 2, config.width // config.heads)
        return ops.zeros(shape, self.compute_dtype)


MODEL = Model("llama-decoding", CONFIGS, data, Llama, lambda _: keras.optimizers.Adam(), ("infer",))

if __name__ == "__main__":
    main(MODEL)
