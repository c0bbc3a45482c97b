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
from models.classification import Classifier, classifier_session, dense
from models.program import Data, Model, Program, Tensors, placeholders
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


class BiRNN(Classifier):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self._lines = config.lines
        self.lstm = keras.layers.Bidirectional(keras.layers.LSTM(config.hidden, use_cudnn=False))
        self.out = keras.layers.Dense(10)

    def logits(self, batch: Tensors) -> Any:
        return self.out(self.lstm(tf.reshape(batch["image"], [-1, self._lines, COLUMNS])))


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
    logits = dense(tf.concat(last, 1), "out", 10)
    return classifier_session(feeds, logits, tf.compat.v1.train.GradientDescentOptimizer(RATE), data)


def data(config: Config, random: np.random.Generator) -> Data:
    batches = [{**batch, "image": batch["image"][:, : config.lines * COLUMNS]}
               for batch in labelled_images(random, config.batch, 4)]  # fmt: skip
    return Data(batches, batches)


MODEL = Model("bi-rnn", CONFIGS, data, BiRNN, lambda _: keras.optimizers.SGD(RATE), ("train",), session)

if __name__ == "__main__":
    main(MODEL)
