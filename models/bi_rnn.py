"""A bidirectional LSTM that reads handwritten digits line by line (TensorFlow-Examples, bidirectional_rnn).

TensorFlow 1's static_bidirectional_rnn unrolls the loop over the lines; Keras' layer keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.basic_lstm import BasicLSTM
from models.program import Data, Model, Program, SessionProgram, Tensors, placeholders
from models.script import main
from models.synthetic import labelled_images

RATE, LINES, COLUMNS = 0.001, 28, 28


@dataclass(frozen=True)
class Config:
    batch: int
    hidden: int
    lines: int


CONFIGS = {"paper": Config(batch=128, hidden=128, lines=LINES), "medium": Config(batch=256, hidden=64, lines=LINES),
           "small": Config(batch=16, hidden=32, lines=7)}


class BiRNN(keras.layers.Layer):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self._lines = config.lines
        self.lstm = keras.layers.Bidirectional(keras.layers.LSTM(config.hidden, use_cudnn=False))
        self.out = keras.layers.Dense(10)

    def logits(self, image: Any) -> Any:
        return self.out(self.lstm(tf.reshape(image, [-1, self._lines, COLUMNS])))

    def infer(self, batch: Tensors) -> dict[str, Any]:
        return {"probabilities": tf.nn.softmax(self.logits(batch["image"]))}

    def train_loss(self, batch: Tensors) -> Any:
        return cross_entropy(self.logits(batch["image"]), batch["label"])


def cross_entropy(logits: Any, label: Any) -> Any:
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(tf.one_hot(label, 10), logits))


def session(config: Config, data: Data) -> Program:
    feeds = placeholders(data.train)
    lines = tf.unstack(tf.reshape(feeds["image"], [-1, config.lines, COLUMNS]), axis=1)
    last = []
    for name, order in (("forwards", lines), ("backwards", lines[::-1])):
        cell = BasicLSTM(name, COLUMNS, config.hidden)
        state = cell.zero_state(tf.shape(order[0])[0])
        for line in order:
            output, state = cell(line, state)
        last.append(output)
    # The example takes the outputs at the last line, where the backward cell has read one line only; here it has
    # read all, as in Keras' layer.
    normal = tf.compat.v1.random_normal_initializer()
    weights = tf.compat.v1.get_variable("weights", [2 * config.hidden, 10], initializer=normal)
    bias = tf.compat.v1.get_variable("bias", [10], initializer=normal)
    logits = tf.matmul(tf.concat(last, 1), weights) + bias
    loss = cross_entropy(logits, feeds["label"])
    train = tf.compat.v1.train.GradientDescentOptimizer(RATE).minimize(loss)
    return SessionProgram(feeds, loss, train, {"probabilities": tf.nn.softmax(logits)}, data)


def data(config: Config, random: np.random.Generator) -> Data:
    batches = [{**batch, "image": batch["image"][:, : config.lines * COLUMNS]}
               for batch in labelled_images(random, config.batch, 4)]  # fmt: skip
    return Data(batches, batches)


MODEL = Model("bi-rnn", CONFIGS, data, BiRNN, lambda _: keras.optimizers.SGD(RATE), ("train",), session)

if __name__ == "__main__":
    main(MODEL)
