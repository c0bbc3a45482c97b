"""Two towers for retrieval (Yi et al., 2019): people by what they looked at, things by what they are, and a softmax
over the things of the batch, corrected by how common they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.program import Batch, Data, Model, Tensors
from models.recommenders.clicks import BATCHES, skewed, tower
from models.script import main

RATE, TEMPERATURE = 0.05, 0.1


@dataclass(frozen=True)
class Config:
    batch: int
    people: int
    things: int
    kinds: int
    history: int
    width: int
    sizes: tuple[int, ...]


CONFIGS = {"medium": Config(512, 20_000, 10_000, 100, 20, 32, (64, 32)),
           "paper": Config(1024, 200_000, 100_000, 1000, 50, 64, (512, 256, 64)),
           "small": Config(32, 300, 200, 10, 5, 8, (16, 8))}  # fmt: skip


def visits(config: Config, rng: np.random.Generator) -> Data:
    """Who looked at what, and at what before; the history ends with zeros, which are no thing."""
    kinds = rng.integers(0, config.kinds, config.things).astype(np.int32)
    batches: list[Batch] = []
    for _ in range(BATCHES):
        person = skewed(rng, config.people, (config.batch,))
        thing = skewed(rng, config.things, (config.batch,))
        history = skewed(rng, config.things, (config.batch, config.history))
        history *= np.arange(config.history) < rng.integers(0, config.history + 1, (config.batch, 1))
        common = (1.0 / (1.0 + thing)).astype(np.float32)
        batches.append({"person": person, "thing": thing, "kind": kinds[thing], "history": history, "common": common})
    return Data(batches, [{name: batch[name] for name in ("person", "history")} for batch in batches])


class TwoTower(keras.layers.Layer):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.people = keras.layers.Embedding(config.people, config.width)
        self.things = keras.layers.Embedding(config.things, config.width)
        self.kinds = keras.layers.Embedding(config.kinds, config.width)
        self.of_person, self.of_thing = tower(config.sizes, None), tower(config.sizes, None)

    def infer(self, batch: Tensors) -> dict[str, Any]:
        """Where a person looks for things."""
        return {"place": self._person(batch)}

    def train_loss(self, batch: Tensors) -> Any:
        scores = tf.matmul(self._person(batch), self._thing(batch), transpose_b=True) / TEMPERATURE
        scores -= tf.math.log(batch["common"])
        wanted = tf.range(tf.shape(scores)[0])
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(wanted, scores))

    def _person(self, batch: Tensors) -> Any:
        there = tf.cast(batch["history"] > 0, tf.float32)[:, :, None]
        seen = tf.reduce_sum(self.things(batch["history"]) * there, 1) / (tf.reduce_sum(there, 1) + 1)
        return _unit(self.of_person(tf.concat([self.people(batch["person"]), seen], 1)))

    def _thing(self, batch: Tensors) -> Any:
        return _unit(self.of_thing(tf.concat([self.things(batch["thing"]), self.kinds(batch["kind"])], 1)))


def _unit(x: Any) -> Any:
    return tf.math.l2_normalize(x, axis=1)


MODEL = Model("two-tower", CONFIGS, visits, TwoTower, lambda _: keras.optimizers.Adagrad(RATE), ("train", "infer"))

if __name__ == "__main__":
    main(MODEL)
