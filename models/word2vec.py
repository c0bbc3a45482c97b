"""Skip-gram word vectors with noise-contrastive estimation (TensorFlow-Examples, word2vec).

Inference finds how near words are to all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.program import Data, Model, Program, SessionProgram, Tensors
from models.script import main
from models.synthetic import words

RATE, SAMPLED, PROBES = 0.1, 64, 6


@dataclass(frozen=True)
class Config:
    batch: int
    vocabulary: int
    width: int


CONFIGS = {"paper": Config(batch=128, vocabulary=50000, width=200),
           "medium": Config(batch=4096, vocabulary=50000, width=200),
           "small": Config(batch=64, vocabulary=1000, width=32)}  # fmt: skip


class Word2Vec(keras.layers.Layer):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self._vocabulary = config.vocabulary
        shape = (config.vocabulary, config.width)
        self.embedding = self.add_weight(shape=shape, initializer=keras.initializers.RandomNormal(stddev=1))
        self.contexts = self.add_weight(shape=shape, initializer=keras.initializers.RandomNormal(stddev=1))
        self.biases = self.add_weight(shape=shape[:1], initializer="zeros")

    def infer(self, batch: Tensors) -> dict[str, Any]:
        return {"similarity": similarity(self.embedding.value, batch["probe"])}

    def train_loss(self, batch: Tensors) -> Any:
        variables = (self.embedding.value, self.contexts.value, self.biases.value)
        return noise_contrastive_loss(*variables, batch, self._vocabulary)


def noise_contrastive_loss(embedding: Any, weights: Any, biases: Any, batch: Tensors, vocabulary: int) -> Any:
    vectors = tf.nn.embedding_lookup(embedding, batch["word"])
    return tf.reduce_mean(tf.nn.nce_loss(weights, biases, batch["neighbour"], vectors, SAMPLED, vocabulary))


def similarity(embedding: Any, probe: Any) -> Any:
    """Cosines, up to one factor for all (the example's formula): [probes, vocabulary]."""
    found = tf.nn.embedding_lookup(embedding, probe)
    found /= tf.sqrt(tf.reduce_sum(tf.square(found)))
    unit = embedding / tf.sqrt(tf.reduce_sum(tf.square(embedding), 1, keepdims=True))
    return tf.matmul(found, unit, transpose_b=True)


def session(config: Config, data: Data) -> Program:
    v1 = tf.compat.v1
    feeds = {"word": v1.placeholder(tf.int32, [None], "word"), "probe": v1.placeholder(tf.int32, [None], "probe"),
             "neighbour": v1.placeholder(tf.int64, [None, 1], "neighbour")}  # fmt: skip
    shape = [config.vocabulary, config.width]
    embedding = v1.get_variable("embedding", shape, initializer=v1.random_normal_initializer())
    weights = v1.get_variable("weights", shape, initializer=v1.random_normal_initializer())
    biases = v1.get_variable("biases", shape[:1], initializer=v1.zeros_initializer())
    loss = noise_contrastive_loss(embedding, weights, biases, feeds, config.vocabulary)
    train = v1.train.GradientDescentOptimizer(RATE).minimize(loss)
    return SessionProgram(feeds, loss, train, {"similarity": similarity(embedding, feeds["probe"])}, data)


def data(config: Config, random: np.random.Generator) -> Data:
    def batch() -> dict[str, np.ndarray]:
        word, neighbour = words(random, config.vocabulary, (2, config.batch))
        return {"word": word, "neighbour": neighbour[:, None].astype(np.int64)}

    return Data([batch() for _ in range(4)], [{"probe": np.arange(1, 1 + PROBES, dtype=np.int32)}])


MODEL = Model("word2vec", CONFIGS, data, Word2Vec, lambda _: keras.optimizers.SGD(RATE), ("train",), session)

if __name__ == "__main__":
    main(MODEL)
