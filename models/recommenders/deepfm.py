"""DeepFM (Guo et al., 2017): a factorisation machine and a tower that read the same embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from models.program import Model, Tensors
from models.recommenders.clicks import ClickConfig, ClickModel, Tables, clicks, tower
from models.script import main

RATE = 0.001


@dataclass(frozen=True)
class Config(ClickConfig):
    deep: tuple[int, ...]


CONFIGS = {"medium": Config(1024, 26, 5000, 10, (128, 64)),
           "paper": Config(1024, 26, 40_000, 10, (400, 400, 400)),
           "small": Config(64, 5, 200, 8, (32, 16))}  # fmt: skip


class DeepFm(ClickModel):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.tables = Tables(config.tables, config.rows, config.width)
        self.weights_of_one = Tables(config.tables, config.rows, 1)
        self.weights_of_numbers = keras.layers.Dense(1)
        self.deep = tower((*config.deep, 1), last=None)

    def logits(self, batch: Tensors) -> Any:
        numbers = tf.math.log1p(batch["number"])
        factors = tf.stack(self.tables(batch["category"]), axis=1)
        first = tf.add_n(self.weights_of_one(batch["category"])) + self.weights_of_numbers(numbers)
        of_pairs = tf.square(tf.reduce_sum(factors, 1)) - tf.reduce_sum(tf.square(factors), 1)
        flat = tf.reshape(factors, [-1, factors.shape[1] * factors.shape[2]])
        return first + tf.reduce_sum(of_pairs, 1, keepdims=True) / 2 + self.deep(tf.concat([flat, numbers], 1))


MODEL = Model("deepfm", CONFIGS, clicks, DeepFm, lambda _: keras.optimizers.Adam(RATE), ("train", "infer"))

if __name__ == "__main__":
    main(MODEL)
