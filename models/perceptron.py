"""A multilayer perceptron on handwritten digits (TensorFlow-Examples, multilayer_perceptron)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import keras
import tensorflow as tf

from models.classification import Classifier, classifier_session, dense, digits
from models.program import Data, Model, Program, Tensors, placeholders
from models.script import main

RATE = 0.001


@dataclass(frozen=True)
class Config:
    batch: int
    hidden: int


CONFIGS = {"paper": Config(batch=100, hidden=256), "medium": Config(batch=64, hidden=2048),
           "small": Config(batch=32, hidden=64)}


class Perceptron(Classifier):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.layers = [keras.layers.Dense(config.hidden, activation="relu") for _ in range(2)]
        self.out = keras.layers.Dense(10)

    def logits(self, batch: Tensors) -> Any:
        image = batch["image"]
        for layer in self.layers:
            image = layer(image)
        return self.out(image)


def session(config: Config, data: Data) -> Program:
    feeds = placeholders(data.train)
    x, sizes = feeds["image"], (784, config.hidden, config.hidden, 10)
    for i, (rows, columns) in enumerate(pairwise(sizes)):
        x = dense(x if i == 0 else tf.nn.relu(x), f"layer{i}", columns, rows**-0.5)
    return classifier_session(feeds, x, tf.compat.v1.train.AdamOptimizer(RATE), data)


MODEL = Model("perceptron", CONFIGS, digits, Perceptron, lambda _: keras.optimizers.Adam(RATE), ("train",), session)

if __name__ == "__main__":
    main(MODEL)
