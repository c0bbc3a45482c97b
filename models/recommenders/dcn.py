"""A deep and cross network, version 2 (Wang et al., 2021): learned sums of features times features, beside a tower with
batch normalisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from models.program import Model, Tensors
from models.recommenders.clicks import MEASURES, ClickConfig, ClickModel, Tables, clicks
from models.script import main

RATE = 0.001


@dataclass(frozen=True)
class Config(ClickConfig):
    crosses: int
    deep: tuple[int, ...]


CONFIGS = {"medium": Config(1024, 26, 5000, 16, 2, (128, 64)),
           "paper": Config(4096, 26, 5000, 16, 3, (1024, 512)),
           "small": Config(64, 5, 200, 8, 2, (32, 16))}  # fmt: skip


class Dcn(ClickModel):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.tables = Tables(config.tables, config.rows, config.width)
        self.crosses = [keras.layers.Dense(config.tables * config.width + MEASURES) for _ in range(config.crosses)]
        self.deep = [keras.layers.Dense(size, use_bias=False) for size in config.deep]
        self.norms = [keras.layers.BatchNormalization() for _ in config.deep]
        self.out = keras.layers.Dense(1)

    def logits(self, batch: Tensors, training: bool = False) -> Any:
        first = tf.concat([*self.tables(batch["category"]), tf.math.log1p(batch["number"])], axis=1)
        crossed = deep = first
        for layer in self.crosses:
            crossed = first * layer(crossed) + crossed
        for layer, norm in zip(self.deep, self.norms, strict=True):
            deep = tf.nn.relu(norm(layer(deep), training=training))
        return self.out(tf.concat([crossed, deep], axis=1))

    def train_loss(self, batch: Tensors) -> Any:
        logits, clicked = self.logits(batch, training=True)[:, 0], batch["clicked"]
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(clicked, logits))


MODEL = Model("dcn", CONFIGS, clicks, Dcn, lambda _: keras.optimizers.AdamW(RATE), ("train", "infer"))

if __name__ == "__main__":
    main(MODEL)
