"""The deep interest evolution network predicts clicks from what a user clicked before (Zhou et al.).

A GRU reads the history, guided by an auxiliary loss (does the state tell the next click from one not made?). Attention
to the offered item scales the update gate of a second GRU. A small network with PReLU decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.attention import BLOCKED
from models.block import Block
from models.program import Batch, Data, Model, Tensors
from models.recurrent import Recurrent, dynamic_rnn
from models.script import main
from models.synthetic import lengths, padded, words

TINY = 1e-8


@dataclass(frozen=True)
class Config:
    """Sizes; `histories` are the lengths to which a batch's histories are padded."""

    batch: int
    histories: tuple[int, ...]
    users: int
    items: int
    categories: int
    width: int = 18
    layers: tuple[int, int] = (200, 80)


CONFIGS = {
    "paper": Config(batch=256, histories=(100, 80), users=543060, items=367983, categories=1601),
    "medium": Config(batch=128, histories=(50, 40), users=20000, items=20000, categories=1601),
    "small": Config(batch=8, histories=(10, 7), users=50, items=60, categories=7, layers=(20, 8)),
}


class AttentionalGRUCell(Block):
    """A GRU cell whose update gate is scaled by an attention score (AUGRU)."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self._units = units
        self.gates = keras.layers.Dense(2 * units, activation="sigmoid", bias_initializer="ones")
        self.candidate = keras.layers.Dense(units, activation="tanh")

    def call(self, x: tuple[Any, Any], state: Any) -> tuple[Any, Any]:
        x, score = x
        reset, update = tf.split(self.gates(tf.concat([x, state], -1)), 2, -1)
        candidate = self.candidate(tf.concat([x, reset * state], -1))
        update = (1 - score) * update
        state = update * state + (1 - update) * candidate
        return state, state


class AuxiliaryNet(Block):
    """The probability of a click, from the state before it and the item: [batch, time, depth] -> [batch, time]."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = keras.layers.BatchNormalization()
        self.layers = [keras.layers.Dense(100, "sigmoid"), keras.layers.Dense(50, "sigmoid"), keras.layers.Dense(2)]

    def call(self, x: Any) -> Any:
        x = self.norm(x, training=True)
        for layer in self.layers:
            x = layer(x)
        return tf.nn.softmax(tf.cast(x, tf.float32))[..., 0] + TINY


class DIEN(keras.layers.Layer):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self._units = 2 * config.width
        self.users, self.items, self.categories = (
            keras.layers.Embedding(rows, config.width) for rows in (config.users, config.items, config.categories)
        )
        self.gru = Recurrent(keras.layers.GRUCell(self._units))
        self.evolution = AttentionalGRUCell(self._units)
        self.query, self.query_prelu = keras.layers.Dense(self._units), keras.layers.PReLU(shared_axes=[1])
        self.scores = [keras.layers.Dense(80, "sigmoid"), keras.layers.Dense(40, "sigmoid"), keras.layers.Dense(1)]
        self.auxiliary = AuxiliaryNet()
        self.norm = keras.layers.BatchNormalization()
        self.layers = [keras.layers.Dense(units) for units in config.layers]
        self.prelus = [keras.layers.PReLU() for _ in config.layers]
        self.out = keras.layers.Dense(2)

    def embed(self, item: Any, category: Any) -> Any:
        return tf.concat([self.items(item), self.categories(category)], -1)

    def attention(self, item: Any, states: Any, length: Any) -> Any:
        """How much each state has to do with the offered item: [batch, time, 1]."""
        query = tf.broadcast_to(self.query_prelu(self.query(item))[:, None], tf.shape(states))
        score = tf.concat([query, states, query - states, query * states], -1)
        for layer in self.scores:
            score = layer(score)
        alive = tf.sequence_mask(length, tf.shape(states)[1])[..., None]
        return tf.cast(tf.nn.softmax(tf.where(alive, tf.cast(score, tf.float32), BLOCKED), 1), states.dtype)

    def forward(self, batch: Tensors, training: bool) -> tuple[Any, Any, Any]:
        """Probabilities of [click, none], states of the first GRU, and the history's vectors."""
        item = self.embed(batch["item"], batch["category"])
        history = self.embed(batch["items"], batch["categories"])
        states, _ = self.gru(history, batch["length"])
        score = self.attention(item, states, batch["length"])
        zeros = tf.zeros_like(states[:, 0])
        _, interest = dynamic_rnn(self.evolution, (states, score), zeros, batch["length"])
        seen = tf.reduce_sum(history, 1)
        x = tf.concat([self.users(batch["user"]), item, seen, item * seen, interest], -1)
        x = self.norm(x, training=training)
        for layer, prelu in zip(self.layers, self.prelus, strict=True):
            x = prelu(layer(x))
        return tf.nn.softmax(tf.cast(self.out(x), tf.float32)) + TINY, states, history

    def infer(self, batch: Tensors) -> dict[str, Any]:
        return {"click": self.forward(batch, training=False)[0][:, 0]}

    def train_loss(self, batch: Tensors) -> Any:
        probabilities, states, history = self.forward(batch, training=True)
        target = tf.stack([batch["click"], 1 - batch["click"]], 1)
        click = -tf.reduce_mean(tf.math.log(probabilities) * target)
        ignored = self.embed(batch["ignored_items"], batch["ignored_categories"])
        before, alive = states[:, :-1], tf.sequence_mask(batch["length"] - 1, tf.shape(states)[1] - 1, tf.float32)
        made = self.auxiliary(tf.concat([before, history[:, 1:]], -1))
        not_made = self.auxiliary(tf.concat([before, ignored[:, 1:]], -1))
        return click + tf.reduce_mean(-(tf.math.log(made) + tf.math.log(1 - not_made + 2 * TINY)) * alive)


def data(config: Config, random: np.random.Generator) -> Data:
    def clicks(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        item = words(random, config.items, shape)
        return item, item % config.categories

    def inference(longest: int) -> dict[str, np.ndarray]:
        length = lengths(random, config.batch, longest)
        item, category = clicks((config.batch,))
        items, categories = (padded(values, length) for values in clicks((config.batch, longest)))
        return {"user": random.integers(0, config.users, config.batch, np.int32), "item": item, "category": category,
                "items": items, "categories": categories, "length": length}  # fmt: skip

    def training(longest: int) -> Batch:
        items, categories = clicks((config.batch, longest))
        return {**inference(longest), "click": random.integers(0, 2, config.batch).astype(np.float32),
                "ignored_items": items, "ignored_categories": categories}  # fmt: skip

    return Data([training(longest) for longest in config.histories],
                [inference(longest) for longest in config.histories])  # fmt: skip


MODEL = Model("dien", CONFIGS, data, DIEN, lambda _: keras.optimizers.Adam(0.001), ("train", "infer"),
              dtypes=("float32", "mixed_float16", "mixed_bfloat16"))  # fmt: skip

if __name__ == "__main__":
    main(MODEL)
