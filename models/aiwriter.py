"""Dialog generation: a stack of LSTMs reads what was said; another, with attention (Luong et al.), answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.attention import BLOCKED
from models.program import Batch, Data, Model, Tensors, shared
from models.recurrent import Recurrent, dynamic_rnn
from models.script import main
from models.transformer import BEGIN, END, PADDING, sentences


@dataclass(frozen=True)
class Config:
    """Sizes; `turns` are the lengths of the batches' longest sentences."""

    batch: int
    turns: tuple[int, ...]
    layers: int
    width: int
    hidden: int
    vocabulary: int
    dropout: float = 0.2


CONFIGS = {
    "paper": Config(batch=64, turns=(30, 20), layers=2, width=512, hidden=512, vocabulary=20000),
    "medium": Config(batch=32, turns=(20, 14), layers=2, width=128, hidden=128, vocabulary=4000),
    "small": Config(batch=4, turns=(8, 6), layers=2, width=12, hidden=16, vocabulary=50),
}


class Writer(keras.layers.Layer):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self._config = config
        self.words = keras.layers.Embedding(config.vocabulary, config.width)
        self.dropout = keras.layers.Dropout(config.dropout)
        self.encoder = [Recurrent(keras.layers.LSTMCell(config.hidden)) for _ in range(config.layers)]
        self.decoder = keras.layers.StackedRNNCells([keras.layers.LSTMCell(config.hidden)
                                                     for _ in range(config.layers)])  # fmt: skip
        self.key = keras.layers.Dense(config.hidden, use_bias=False)
        self.mix = keras.layers.Dense(config.hidden, activation="tanh", use_bias=False)
        self.out = keras.layers.Dense(config.vocabulary)

    def encode(self, said: Any, training: bool) -> tuple[Any, Any, Any]:
        """First state of the decoder, memory [batch, length, hidden], and its bias [batch, length]."""
        alive = said != PADDING
        x, states = self.dropout(self.words(said), training=training), []
        for layer in self.encoder:
            x, state = layer(x, tf.reduce_sum(tf.cast(alive, tf.int32), 1))
            states.append(state)
        attended = tf.zeros_like(states[0][0])
        return (states, attended), x, tf.where(alive, 0.0, BLOCKED)

    def step(self, x: Any, state: Any, memory: Any, keys: Any, bias: Any) -> tuple[Any, Any]:
        """One word; the attended vector is fed back beside the next word."""
        cells, attended = state
        h, cells = self.decoder(tf.concat([x, attended], -1), cells)
        weights = tf.nn.softmax(tf.einsum("bh,bsh->bs", h, keys) + bias)
        attended = self.mix(tf.concat([h, tf.einsum("bs,bsh->bh", weights, memory)], -1))
        return attended, (cells, attended)

    def train_loss(self, batch: Tensors) -> Any:
        state, memory, bias = self.encode(batch["said"], training=True)
        keys, answer = self.key(memory), batch["answer"]
        given = self.words(tf.pad(answer[:, :-1], [[0, 0], [1, 0]], constant_values=BEGIN))
        if not self.decoder.built:
            self.decoder.build((None, self._config.width + self._config.hidden))
        outputs, _ = dynamic_rnn(lambda x, state: self.step(x, state, memory, keys, bias),
                                 self.dropout(given, training=True), state)  # fmt: skip
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(answer, self.out(outputs))
        alive = tf.cast(answer != PADDING, tf.float32)
        return tf.reduce_sum(each * alive) / tf.reduce_sum(alive)

    def infer(self, batch: Tensors) -> dict[str, Any]:
        """The likeliest word each time: [batch, longest], END from each row's end on."""
        state, memory, bias = self.encode(batch["said"], training=False)
        keys, longest = self.key(memory), max(self._config.turns)
        if not self.decoder.built:
            self.decoder.build((None, self._config.width + self._config.hidden))

        def body(place: Any, words: Any, last: Any, state: Any) -> Any:
            x, state = self.step(self.words(last), state, memory, keys, bias)
            best = tf.where((place > 0) & (last == END), END, tf.argmax(self.out(x), -1, tf.int32))
            return place + 1, words + best[:, None] * tf.one_hot(place, longest, dtype=tf.int32), best, state

        rows = tf.shape(memory)[0]
        values = (0, tf.zeros([rows, longest], tf.int32), tf.fill([rows], BEGIN), state)
        _, words, _, (_, attended) = tf.while_loop(lambda place, *_: place < longest, body, values)
        return {"answer": words, "last": attended}


def data(config: Config, random: np.random.Generator) -> Data:
    def batch(longest: int) -> Batch:
        return {name: sentences(random, config.batch, longest, config.vocabulary) for name in ("said", "answer")}

    return shared([batch(longest) for longest in config.turns], "said")


MODEL = Model("aiwriter", CONFIGS, data, Writer, lambda _: keras.optimizers.Adam(0.001, global_clipnorm=5.0),
              ("train",))  # fmt: skip

if __name__ == "__main__":
    main(MODEL)
