"""A deep learning recommendation model (Naumov et al., 2019): dot products of all pairs of embeddings, and a tower."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.program import Model, Tensors
from models.recommenders.clicks import ClickConfig, ClickModel, Tables, clicks, tower
from models.script import main

RATE = 0.1


@dataclass(frozen=True)
class Config(ClickConfig):
    bottom: tuple[int, ...]
    top: tuple[int, ...]


CONFIGS = {"medium": Config(1024, 26, 5000, 16, (128, 64), (128, 64)),
           "paper": Config(2048, 26, 100_000, 16, (512, 256, 64), (512, 256)),
           "small": Config(64, 5, 200, 8, (16,), (32, 16))}  # fmt: skip


class Dlrm(ClickModel):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.tables = Tables(config.tables, config.rows, config.width)
        self.bottom = tower((*config.bottom, config.width))
        self.top = tower((*config.top, 1), last=None)
        self._features = config.tables + 1

    def logits(self, batch: Tensors) -> Any:
        dense = self.bottom(tf.math.log1p(batch["number"]))
        features = tf.stack([dense, *self.tables(batch["category"])], axis=1)
        dots = tf.matmul(features, features, transpose_b=True)
        rows, columns = np.tril_indices(self._features, -1)
        flat = tf.reshape(dots, [-1, self._features**2])
        pairs = tf.gather(flat, (rows * self._features + columns).astype(np.int32), axis=1)
        return self.top(tf.concat([dense, pairs], axis=1))


MODEL = Model("dlrm", CONFIGS, clicks, Dlrm, lambda _: keras.optimizers.SGD(RATE), ("train", "infer"))

if __name__ == "__main__":
    main(MODEL)
