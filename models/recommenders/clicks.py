"""What recommenders learn from, and the parts that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.program import Batch, Data, Tensors

BATCHES = 4
SKEW = 1.2
"""Of the Zipf distribution: few values are common, most are rare, as in logs of clicks."""
MEASURES = 13
"""Of Criteo's logs."""


@dataclass(frozen=True)
class ClickConfig:
    """What all networks of clicks have: tables of so many rows, and embeddings of so many numbers."""

    batch: int
    tables: int
    rows: int
    width: int


def skewed(rng: np.random.Generator, rows: int, shape: tuple[int, ...]) -> np.ndarray:
    """Row numbers."""
    return ((rng.zipf(SKEW, shape) - 1) % rows).astype(np.int32)


def clicks(config: ClickConfig, rng: np.random.Generator) -> Data:
    """Batches like Criteo's: categories, one for each of `config.tables`, numbers, and whether somebody clicked."""
    batches: list[Batch] = []
    for _ in range(BATCHES):
        category = skewed(rng, config.rows, (config.batch, config.tables))
        number = rng.lognormal(size=(config.batch, MEASURES)).astype(np.float32)
        clicked = (category.sum(1) + number.sum(1) * 7) % 5 < 2
        batches.append({"category": category, "number": number, "clicked": clicked.astype(np.float32)})
    return Data(batches, [{name: batch[name] for name in ("category", "number")} for batch in batches])


class Tables(keras.layers.Layer):
    """An embedding for each category: [batch, tables] -> as many of [batch, width]."""

    def __init__(self, tables: int, rows: int, width: int) -> None:
        super().__init__()
        self.tables = [keras.layers.Embedding(rows, width) for _ in range(tables)]

    def call(self, category: Any) -> list[Any]:
        return [table(category[:, i]) for i, table in enumerate(self.tables)]


class ClickModel(keras.layers.Layer):
    """A network of clicks; what derives from it defines `logits`: batch -> [batch, 1]."""

    def logits(self, batch: Tensors) -> Any:
        raise NotImplementedError

    def infer(self, batch: Tensors) -> dict[str, Any]:
        return {"probability": tf.sigmoid(self.logits(batch))}

    def train_loss(self, batch: Tensors) -> Any:
        logits, clicked = self.logits(batch)[:, 0], batch["clicked"]
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(clicked, logits))


def tower(sizes: Sequence[int], last: str | None = "relu") -> keras.Sequential:
    """Dense layers."""
    return keras.Sequential([keras.layers.Dense(size, activation="relu" if i + 1 < len(sizes) else last)
                             for i, size in enumerate(sizes)])  # fmt: skip
