"""Self-attentive sequential recommendation (Kang and McAuley, 2018): what somebody looks at next, of what they looked
at before. Each place of a history is told the thing that came next from one that did not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.program import Batch, Data, Model, Tensors
from models.recommenders.clicks import BATCHES, skewed
from models.script import main

RATE = 0.001
NOWHERE = -1e9


@dataclass(frozen=True)
class Config:
    batch: int
    things: int
    history: int
    width: int
    blocks: int


CONFIGS = {"medium": Config(64, 10_000, 50, 50, 2),
           "paper": Config(128, 57_289, 200, 50, 2),
           "small": Config(8, 200, 10, 8, 2)}  # fmt: skip


def histories(config: Config, rng: np.random.Generator) -> Data:
    """Histories that begin with zeros, which are no thing, and of each place a thing that did not come next."""
    batches: list[Batch] = []
    for _ in range(BATCHES):
        seen = 1 + skewed(rng, config.things - 1, (config.batch, config.history + 1))
        seen *= np.arange(config.history, -1, -1) <= rng.integers(1, config.history + 1, (config.batch, 1))
        other = 1 + rng.integers(0, config.things - 1, (config.batch, config.history)).astype(np.int32)
        batches.append({"seen": seen[:, :-1], "next": seen[:, 1:], "other": other})
    return Data(batches, [{"seen": batch["seen"]} for batch in batches])


class Block(keras.layers.Layer):
    """Attention to what came before, and a network of each place."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (keras.layers.Dense(width, use_bias=False) for _ in range(3))
        self.wide, self.out = keras.layers.Dense(width, activation="relu"), keras.layers.Dense(width)
        self.norms = [keras.layers.LayerNormalization(epsilon=1e-8) for _ in range(2)]
        self._scale = width**-0.5

    def call(self, x: Any, mask: Any) -> Any:
        query = self.norms[0](x)
        scores = tf.matmul(self.query(query), self.key(x), transpose_b=True) * self._scale
        x = query + tf.matmul(tf.nn.softmax(scores + mask), self.value(x))
        x = self.norms[1](x)
        return x + self.out(self.wide(x))


class SasRec(keras.layers.Layer):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.things = keras.layers.Embedding(config.things, config.width)
        self.places = keras.layers.Embedding(config.history, config.width)
        self.blocks = [Block(config.width) for _ in range(config.blocks)]
        self.norm = keras.layers.LayerNormalization(epsilon=1e-8)
        self._width, self._history = config.width, config.history
        self._later = (NOWHERE * np.triu(np.ones((config.history, config.history)), 1)).astype(np.float32)

    def infer(self, batch: Tensors) -> dict[str, Any]:
        """Scores of all things after the last place."""
        last = self._states(batch["seen"])[:, -1]
        return {"scores": tf.matmul(last, self.things.embeddings, transpose_b=True)}

    def train_loss(self, batch: Tensors) -> Any:
        states = self._states(batch["seen"])
        right, wrong = (tf.reduce_sum(states * self.things(batch[name]), -1) for name in ("next", "other"))
        loss = tf.math.softplus(-right) + tf.math.softplus(wrong)
        there = tf.cast(batch["next"] > 0, tf.float32)
        return tf.reduce_sum(loss * there) / tf.reduce_sum(there)

    def _states(self, seen: Any) -> Any:
        there = tf.cast(seen > 0, tf.float32)[:, :, None]
        x = self.things(seen) * self._width**0.5 + self.places(tf.range(self._history))
        mask = self._later + (1 - there[:, None, :, 0]) * NOWHERE
        x *= there
        for block in self.blocks:
            x = block(x, mask) * there
        return self.norm(x)


MODEL = Model("sasrec", CONFIGS, histories, SasRec, lambda _: keras.optimizers.Adam(RATE), ("train", "infer"))

if __name__ == "__main__":
    main(MODEL)
