"""Translation with attention (Bahdanau et al.): a bidirectional GRU encodes, a GRU decodes by beam search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.attention import BLOCKED
from models.block import Block
from models.program import Batch, Data, Model, Tensors
from models.recurrent import Bidirectional, dynamic_rnn
from models.script import main
from models.transformer import BEGIN, END, PADDING, sentences


@dataclass(frozen=True)
class Config:
    """Sizes; `sources` are the lengths of the batches' longest sentences, `decoded` is that of a translation."""

    train_batch: int
    infer_batch: int
    sources: tuple[int, ...]
    decoded: int
    beam: int
    width: int
    hidden: int
    vocabulary: int


CONFIGS = {
    "paper": Config(train_batch=80, infer_batch=16, sources=(40, 30), decoded=40, beam=4, width=620, hidden=1000,
                    vocabulary=30000),
    "medium": Config(train_batch=8, infer_batch=4, sources=(20, 15), decoded=20, beam=4, width=128, hidden=128,
                     vocabulary=8000),
    "small": Config(train_batch=4, infer_batch=2, sources=(9, 7), decoded=6, beam=3, width=12, hidden=16,
                    vocabulary=60),
}  # fmt: skip


class AttentionDecoder(Block):
    """One target word: (its predecessor's vector, state, memory) -> (features for the readout, state)."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.cell = keras.layers.GRUCell(hidden)
        self.query, self.key = keras.layers.Dense(hidden), keras.layers.Dense(hidden)
        self.score = keras.layers.Dense(1, use_bias=False)

    def call(self, x: Any, state: Any, memory: Any, keys: Any, bias: Any) -> tuple[Any, Any]:
        energy = self.score(tf.tanh(self.query(state)[:, None] + keys))[..., 0] + bias
        context = tf.einsum("bs,bsw->bw", tf.nn.softmax(energy), memory)
        output, _ = self.cell(tf.concat([x, context], -1), state)
        return tf.concat([output, context, x], -1), output


class Translator(keras.layers.Layer):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self._config = config
        self.source, self.target = (keras.layers.Embedding(config.vocabulary, config.width) for _ in range(2))
        self.encoder = Bidirectional(lambda: keras.layers.GRUCell(config.hidden))
        self.start = keras.layers.Dense(config.hidden, activation="tanh")
        self.decoder = AttentionDecoder(config.hidden)
        self.readout, self.out = keras.layers.Dense(2 * config.width), keras.layers.Dense(config.vocabulary)

    def encode(self, source: Any) -> tuple[Any, Any, Any, Any]:
        """First decoder state [batch, hidden]; memory and its keys [batch, length, ...]; bias [batch, length]."""
        alive = source != PADDING
        memory, (_, backwards) = self.encoder(self.source(source), tf.reduce_sum(tf.cast(alive, tf.int32), 1))
        return self.start(backwards[0]), memory, self.decoder.key(memory), tf.where(alive, 0.0, BLOCKED)

    def logits(self, features: Any) -> Any:
        """Maxout over pairs, then all words."""
        pairs = tf.reshape(self.readout(features), tf.concat([tf.shape(features)[:-1], [self._config.width, 2]], 0))
        return self.out(tf.reduce_max(pairs, -1))

    def train_loss(self, batch: Tensors) -> Any:
        state, *memory = self.encode(batch["source"])
        target = batch["target"]
        given = self.target(tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=BEGIN))
        features, _ = dynamic_rnn(lambda x, state: self.decoder(x, state, *memory), given, state)
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(target, self.logits(features))
        alive = tf.cast(target != PADDING, tf.float32)
        return tf.reduce_sum(each * alive) / tf.reduce_sum(alive)

    def infer(self, batch: Tensors) -> dict[str, Any]:
        """Beam search: the best translation of each sentence [batch, decoded], and its log-probability."""
        beam, vocabulary = self._config.beam, self._config.vocabulary
        state, *memory = self.encode(batch["source"])
        rows = tf.shape(state)[0]
        state, *memory = (tf.repeat(x, beam, 0) for x in (state, *memory))
        first_row = tf.range(rows)[:, None] * beam

        def body(place: Any, words: Any, last: Any, score: Any, state: Any) -> Any:
            features, state = self.decoder(self.target(last), state, *memory)
            word_score = tf.nn.log_softmax(self.logits(features))
            ended = tf.one_hot([END], vocabulary, 0.0, BLOCKED)  # after END comes END, at no cost
            word_score = tf.where((last == END)[:, None], ended, word_score)
            total = tf.reshape(score[:, None] + word_score, [-1, beam * vocabulary])
            best, found = tf.nn.top_k(total, beam)
            origin = tf.reshape(first_row + found // vocabulary, [-1])
            last = tf.reshape(found % vocabulary, [-1])
            words = tf.gather(words, origin) + last[:, None] * tf.one_hot(place, words.shape[1], dtype=tf.int32)
            return place + 1, words, last, tf.reshape(best, [-1]), tf.gather(state, origin)

        # Only the first beam of a row counts at first: all are equal.
        score = tf.tile(tf.one_hot(0, beam, 0.0, BLOCKED), [rows])
        words = tf.zeros([rows * beam, self._config.decoded], tf.int32)
        values = (0, words, tf.fill([rows * beam], BEGIN), score, state)
        _, words, _, score, _ = tf.while_loop(lambda place, *_: place < words.shape[1], body, values)
        return {"translation": words[::beam], "score": score[::beam]}


def data(config: Config, random: np.random.Generator) -> Data:
    def training(longest: int) -> Batch:
        return {name: sentences(random, config.train_batch, longest, config.vocabulary)
                for name in ("source", "target")}  # fmt: skip

    inference = [{"source": sentences(random, config.infer_batch, n, config.vocabulary)} for n in config.sources]
    return Data([training(longest) for longest in config.sources], inference)


MODEL = Model("nmt", CONFIGS, data, Translator, lambda _: keras.optimizers.Adadelta(1.0, global_clipnorm=1.0),
              ("infer",))  # fmt: skip

if __name__ == "__main__":
    main(MODEL)
