"""Logistic regression on handwritten digits (TensorFlow-Examples, logistic_regression)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from models.classification import digits
from models.program import Data, Model, Program, SessionProgram, Tensors, placeholders
from models.script import main

RATE = 0.01


@dataclass(frozen=True)
class Config:
    batch: int


CONFIGS = {"paper": Config(batch=100), "medium": Config(batch=8192), "small": Config(batch=32)}


class Logistic(keras.layers.Layer):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.out = keras.layers.Dense(10, activation="softmax", kernel_initializer="zeros")

    def infer(self, batch: Tensors) -> dict[str, Any]:
        return {"probabilities": self.out(batch["image"])}

    def train_loss(self, batch: Tensors) -> Any:
        return cross_entropy(self.out(batch["image"]), batch["label"])


def cross_entropy(probabilities: Any, label: Any) -> Any:
    """As the example wrote it: from probabilities, not from logits."""
    picked = tf.reduce_sum(tf.one_hot(label, 10) * tf.math.log(tf.clip_by_value(probabilities, 1e-9, 1.0)), 1)
    return -tf.reduce_mean(picked)


def session(config: Config, data: Data) -> Program:
    feeds = placeholders(data.train)
    weights = tf.compat.v1.get_variable("weights", initializer=tf.zeros([784, 10]))
    bias = tf.compat.v1.get_variable("bias", initializer=tf.zeros([10]))
    probabilities = tf.nn.softmax(tf.matmul(feeds["image"], weights) + bias)
    loss = cross_entropy(probabilities, feeds["label"])
    train = tf.compat.v1.train.GradientDescentOptimizer(RATE).minimize(loss)
    return SessionProgram(feeds, loss, train, {"probabilities": probabilities}, data)


MODEL = Model("logistic", CONFIGS, digits, Logistic, lambda _: keras.optimizers.SGD(RATE), ("train",), session)

if __name__ == "__main__":
    main(MODEL)
