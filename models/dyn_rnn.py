"""An LSTM over sequences of different lengths: are the numbers in order? (TensorFlow-Examples, dynamic_rnn)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.basic_lstm import BasicLSTM
from models.classification import Classifier, classifier_session, dense
from models.program import Batch, Data, Model, Program, Tensors, placeholders
from models.recurrent import Recurrent, dynamic_rnn
from models.script import main

RATE, LARGEST, SHORTEST = 0.01, 1000, 3


@dataclass(frozen=True)
class Config:
    batch: int
    hidden: int
    longest: int


CONFIGS = {"paper": Config(batch=128, hidden=64, longest=20), "medium": Config(batch=1024, hidden=64, longest=20),
           "small": Config(batch=16, hidden=16, longest=8)}


class DynamicRNN(Classifier):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.lstm = Recurrent(keras.layers.LSTMCell(config.hidden))
        self.out = keras.layers.Dense(2)

    def logits(self, batch: Tensors) -> Any:
        _, (h, _) = self.lstm(batch["numbers"], batch["length"])
        return self.out(h)


def session(config: Config, data: Data) -> Program:
    feeds = placeholders(data.train)
    cell = BasicLSTM("lstm", 1, config.hidden)
    batch = tf.shape(feeds["numbers"])[0]
    outputs, _ = dynamic_rnn(cell, feeds["numbers"], cell.zero_state(batch), feeds["length"])
    # As the example looks up the output at each row's last number.
    places = tf.range(batch) * config.longest + feeds["length"] - 1
    last = tf.gather(tf.reshape(outputs, [-1, config.hidden]), places)
    return classifier_session(feeds, dense(last, "out", 2), tf.compat.v1.train.GradientDescentOptimizer(RATE), data)


def data(config: Config, random: np.random.Generator) -> Data:
    def batch() -> Batch:
        length = random.integers(SHORTEST, config.longest + 1, config.batch, np.int32)
        label = random.integers(0, 2, config.batch, np.int32)
        start = random.integers(0, LARGEST - config.longest, (config.batch, 1))
        ordered = start + np.arange(config.longest)
        unordered = random.integers(0, LARGEST, (config.batch, config.longest))
        numbers = np.where(label[:, None] == 0, ordered, unordered) * (np.arange(config.longest) < length[:, None])
        return {"numbers": (numbers[:, :, None] / LARGEST).astype(np.float32), "length": length, "label": label}

    batches = [batch() for _ in range(4)]
    return Data(batches, batches)


MODEL = Model("dyn-rnn", CONFIGS, data, DynamicRNN, lambda _: keras.optimizers.SGD(RATE), ("train",), session)

if __name__ == "__main__":
    main(MODEL)
