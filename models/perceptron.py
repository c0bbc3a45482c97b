"""A multilayer perceptron on handwritten digits (TensorFlow-Examples, multilayer_perceptron)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.program import Data, Model, Program, SessionProgram, Tensors, placeholders
from models.script import main
from models.synthetic import labelled_images

RATE = 0.001


@dataclass(frozen=True)
class Config:
    batch: int
    hidden: int


CONFIGS = {"paper": Config(batch=100, hidden=256), "medium": Config(batch=64, hidden=2048),
           "small": Config(batch=32, hidden=64)}


class Perceptron(keras.layers.Layer):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.layers = [keras.layers.Dense(config.hidden, activation="relu") for _ in range(2)]
        self.out = keras.layers.Dense(10)

    def logits(self, image: Any) -> Any:
        for layer in self.layers:
            image = layer(image)
        return self.out(image)

    def infer(self, batch: Tensors) -> dict[str, Any]:
        return {"probabilities": tf.nn.softmax(self.logits(batch["image"]))}

    def train_loss(self, batch: Tensors) -> Any:
        return cross_entropy(self.logits(batch["image"]), batch["label"])


def cross_entropy(logits: Any, label: Any) -> Any:
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(tf.one_hot(label, 10), logits))


def session(config: Config, data: Data) -> Program:
    feeds = placeholders(data.train)
    x, sizes = feeds["image"], (784, config.hidden, config.hidden, 10)
    for i, (rows, columns) in enumerate(pairwise(sizes)):
        normal = tf.compat.v1.random_normal_initializer(stddev=rows**-0.5)
        weights = tf.compat.v1.get_variable(f"weights{i}", [rows, columns], initializer=normal)
        bias = tf.compat.v1.get_variable(f"bias{i}", [columns], initializer=normal)
        x = tf.add(tf.matmul(x if i == 0 else tf.nn.relu(x), weights), bias)
    loss = cross_entropy(x, feeds["label"])
    train = tf.compat.v1.train.AdamOptimizer(RATE).minimize(loss)
    return SessionProgram(feeds, loss, train, {"probabilities": tf.nn.softmax(x)}, data)


def data(config: Config, random: np.random.Generator) -> Data:
    batches = labelled_images(random, config.batch, 4)
    return Data(batches, batches)


MODEL = Model("perceptron", CONFIGS, data, Perceptron, lambda _: keras.optimizers.Adam(RATE), ("train",), session)

if __name__ == "__main__":
    main(MODEL)
