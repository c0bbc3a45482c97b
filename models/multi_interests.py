"""A recommender that sees several interests in what a user did, and pays attention to the one at hand.

Behaviours look at each other (the large batched matmuls of FusionStitching, 3.1), dynamic routing gathers them into
interest capsules (Li et al., MIND), and label-aware attention picks among the capsules for a target item.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.attention import BLOCKED, EncoderLayer, padding_bias
from models.program import Batch, Data, Model, Tensors, shared
from models.script import main
from models.synthetic import lengths, padded, words

SAMPLED = 64
"""Items that were not chosen, drawn anew for each batch."""


@dataclass(frozen=True)
class Config:
    """Sizes. 32 batches x 4 heads x 1024 x 1024 scores are 512 MiB, made of two tensors of 6 MiB."""

    batch: int
    behaviours: tuple[int, ...]
    width: int
    heads: int
    interests: int
    items: int
    routings: int = 3
    sharpness: float = 2.0


CONFIGS = {
    "paper": Config(batch=32, behaviours=(1024, 1000), width=48, heads=4, interests=4, items=200000),
    "medium": Config(batch=8, behaviours=(256, 250), width=48, heads=4, interests=4, items=20000),
    "small": Config(batch=4, behaviours=(20, 16), width=16, heads=2, interests=3, items=100),
}


class MultiInterests(keras.layers.Layer):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self._config = config
        self.items = keras.layers.Embedding(config.items, config.width)
        self.mixing = EncoderLayer(config.width, config.heads, 4 * config.width, dropout=0.0)
        self.bilinear = keras.layers.Dense(config.width, use_bias=False)
        self.routing = self.add_weight(shape=(1, config.interests, max(config.behaviours)), trainable=False,
                                       initializer=keras.initializers.RandomNormal(stddev=1))  # fmt: skip
        self.layers = [keras.layers.Dense(4 * config.width, "relu"), keras.layers.Dense(config.width)]

    def interests(self, behaviours: Any, length: Any) -> Any:
        """Capsules [batch, interests, width] of items [batch, time]."""
        time = tf.shape(behaviours)[1]
        x = self.mixing(self.items(behaviours), padding_bias(length, time))
        votes = self.bilinear(x)
        alive = tf.sequence_mask(length, time)[:, None]
        fixed = tf.stop_gradient(votes)  # what the routing itself learns nothing from
        logits = tf.repeat(self.routing[:, :, :time], tf.shape(x)[0], 0)
        for _ in range(self._config.routings - 1):
            weights = tf.nn.softmax(tf.where(alive, logits, BLOCKED), 1) * tf.cast(alive, tf.float32)
            logits += tf.matmul(squash(tf.matmul(weights, fixed)), fixed, transpose_b=True)
        weights = tf.nn.softmax(tf.where(alive, logits, BLOCKED), 1) * tf.cast(alive, tf.float32)
        capsules = squash(tf.matmul(weights, votes))
        for layer in self.layers:
            capsules = layer(capsules)
        return capsules

    def infer(self, batch: Tensors) -> dict[str, Any]:
        """The capsules, and for each the ten items that fit best."""
        capsules = self.interests(batch["behaviours"], batch["length"])
        scores = tf.einsum("bkw,vw->bkv", capsules, self.items.embeddings.value)
        best, items = tf.nn.top_k(scores, 10)
        return {"interests": capsules, "scores": best, "items": items}

    def train_loss(self, batch: Tensors) -> Any:
        capsules = self.interests(batch["behaviours"], batch["length"])
        target = self.items(batch["target"])
        fit = tf.einsum("bkw,bw->bk", capsules, target)
        weights = tf.nn.softmax(tf.pow(tf.abs(fit) + 1e-9, self._config.sharpness))
        user = tf.einsum("bk,bkw->bw", weights, capsules)
        table, biases = self.items.embeddings.value, tf.zeros([self._config.items])
        labels = tf.cast(batch["target"], tf.int64)[:, None]
        return tf.reduce_mean(tf.nn.sampled_softmax_loss(table, biases, labels, user, SAMPLED, self._config.items))


def squash(x: Any) -> Any:
    """The same direction, a length below 1."""
    square = tf.reduce_sum(tf.square(x), -1, keepdims=True)
    return square / (1 + square) / tf.sqrt(square + 1e-9) * x


def data(config: Config, random: np.random.Generator) -> Data:
    def batch(longest: int) -> Batch:
        length = lengths(random, config.batch, longest)
        behaviours = padded(words(random, config.items, (config.batch, longest), 1), length)
        return {"behaviours": behaviours, "length": length, "target": words(random, config.items, (config.batch,), 1)}

    return shared([batch(longest) for longest in config.behaviours], "behaviours", "length")


MODEL = Model("multi-interests", CONFIGS, data, MultiInterests, lambda _: keras.optimizers.Adam(0.001), ("train",))

if __name__ == "__main__":
    main(MODEL)
