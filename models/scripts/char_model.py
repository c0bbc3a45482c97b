"""A character model with its own training loop: GradientTape, dropout, LayerNormalization, Adam.

Causal blocks over the documentation strings of Python's library: each position sees the ones before it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf
from docstring_text import read_text
from step_log import StepLog, parser


class Block(keras.layers.Layer):
    """Residual GELU layer over a position and the ones `reach`, 2 `reach`, ... before it."""

    TAPS = 4

    def __init__(self, width: int, reach: int, dropout: float) -> None:
        super().__init__()
        self._reach = reach
        self._norm = keras.layers.LayerNormalization()
        self._hidden = keras.layers.Dense(2 * width)
        self._gate = keras.layers.Dense(2 * width, activation="sigmoid")
        self._out = keras.layers.Dense(width)
        self._dropout = keras.layers.Dropout(dropout)

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        y = self._norm(x)
        length = y.shape[1]
        padded = tf.pad(y, [[0, 0], [self._reach * (self.TAPS - 1), 0], [0, 0]])
        seen = tf.concat([padded[:, i * self._reach : i * self._reach + length] for i in range(self.TAPS)], -1)
        hidden = tf.nn.gelu(self._hidden(seen), approximate=True) * self._gate(y)
        return x + self._dropout(self._out(hidden), training=training)


class CharModel(keras.Model):
    """Characters [batch, length] to logits of the next one."""

    def __init__(self, characters: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self._embed = keras.layers.Embedding(characters, width)
        self._blocks = [Block(width, Block.TAPS**i, dropout) for i in range(layers)]
        self._norm = keras.layers.LayerNormalization()
        self._out = keras.layers.Dense(characters)

    def call(self, text: tf.Tensor, training: bool = False) -> tf.Tensor:
        x = self._embed(text)
        for block in self._blocks:
            x = block(x, training=training)
        return self._out(self._norm(x))


class Trainer:
    """A model and its optimizer; `step` is one traced training step."""

    def __init__(self, model: CharModel, jit_compile: bool | None = None) -> None:
        self._model = model
        self._optimizer = keras.optimizers.Adam(3e-3)
        self.step = tf.function(self._step, jit_compile=jit_compile)

    def _step(self, text: tf.Tensor) -> tf.Tensor:
        """Trains on text [batch, length + 1]; the mean loss per character."""
        with tf.GradientTape() as tape:
            logits = self._model(text[:, :-1], training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=text[:, 1:], logits=logits)
            loss = tf.reduce_mean(losses)
        variables = self._model.trainable_variables
        self._optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss


def read_characters() -> tuple[list[str], np.ndarray]:
    """The alphabet (printable ASCII and newline; anything else is "?") and the text as numbers in it."""
    alphabet = ["\n", *map(chr, range(32, 127))]
    number = {character: i for i, character in enumerate(alphabet)}
    return alphabet, np.array([number.get(character, number["?"]) for character in read_text()], np.int32)


def batches(text: np.ndarray, batch: int, length: int, seed: int) -> Iterator[np.ndarray]:
    """Random pieces [batch, length + 1] of the text, for ever."""
    random = np.random.default_rng(seed)
    while True:
        start = random.integers(0, len(text) - length - 1, batch)
        yield text[start[:, None] + np.arange(length + 1)]


def arguments() -> argparse.Namespace:
    flags = parser(__doc__, batch=32)
    flags.add_argument("--length", type=int, default=96, help="characters of a training example")
    flags.add_argument("--width", type=int, default=96)
    flags.add_argument("--layers", type=int, default=3)
    flags.add_argument("--dropout", type=float, default=0.1)
    return flags.parse_args()


def main() -> None:
    args = arguments()
    keras.utils.set_random_seed(args.seed)
    alphabet, text = read_characters()
    trainer = Trainer(CharModel(len(alphabet), args.width, args.layers, args.dropout))
    log = StepLog()
    pieces = batches(text, args.batch, args.length, args.seed)
    for _ in range(args.steps):
        piece = tf.constant(next(pieces))
        log.begin()
        loss = trainer.step(piece)
        log.end(float(loss))
    log.finish(args.out)


if __name__ == "__main__":
    main()
