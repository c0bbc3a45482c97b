"""The encoder-decoder Transformer translates (Vaswani et al., "base"). Inference decodes greedily with a cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.attention import Decoder, DecoderLayer, EncoderLayer, padding_bias, sinusoids
from models.program import Batch, Data, Model, Tensors
from models.script import main
from models.synthetic import lengths, padded, words

PADDING, BEGIN, END, SPECIAL = 0, 1, 2, 3


@dataclass(frozen=True)
class Config:
    """Sizes.

    Attributes:
        tokens: source and target words of a training batch.
        train_lengths: sentences are batched by length.
        infer_lengths: of single sentences.
        decoded: most words of a translation.
    """

    tokens: int
    train_lengths: tuple[int, ...]
    infer_lengths: tuple[int, ...]
    decoded: int
    layers: int
    width: int
    heads: int
    hidden: int
    vocabulary: int
    dropout: float = 0.1


CONFIGS = {
    "paper": Config(tokens=4096, train_lengths=(32, 64), infer_lengths=(27, 40), decoded=64, layers=6, width=512,
                    heads=8, hidden=2048, vocabulary=30000),
    "medium": Config(tokens=1024, train_lengths=(16, 32), infer_lengths=(20, 27), decoded=32, layers=2, width=128,
                     heads=4, hidden=512, vocabulary=4000),
    "small": Config(tokens=64, train_lengths=(8, 16), infer_lengths=(7, 12), decoded=8, layers=1, width=32, heads=4,
                    hidden=64, vocabulary=120),
}  # fmt: skip


class Transformer(keras.layers.Layer):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self._config = config
        size = (config.width, config.heads, config.hidden, config.dropout)
        normal = keras.initializers.RandomNormal(stddev=config.width**-0.5)
        self.words = keras.layers.Embedding(config.vocabulary, config.width, normal)
        self.dropout = keras.layers.Dropout(config.dropout)
        self.encoder = [EncoderLayer(*size) for _ in range(config.layers)]
        self.decoder = Decoder([DecoderLayer(*size) for _ in range(config.layers)])
        self._places = sinusoids(max(*config.train_lengths, *config.infer_lengths, config.decoded), config.width)

    def embed(self, word: Any, place: Any) -> Any:
        """Words [batch, n] at places [n] as [batch, n, width]."""
        x = self.words(word)
        return x * self._config.width**0.5 + tf.cast(tf.gather(self._places, place), x.dtype)

    def logits(self, x: Any) -> Any:
        """Against the words' own vectors, in float32."""
        flat = tf.reshape(x, [-1, self._config.width])
        logits = tf.matmul(flat, tf.cast(self.words.embeddings, x.dtype), transpose_b=True)
        return tf.reshape(tf.cast(logits, tf.float32), [tf.shape(x)[0], -1, self._config.vocabulary])

    def encode(self, source: Any, training: bool) -> tuple[Any, Any]:
        """Memory [batch, length, width] and the bias that hides its padding."""
        length = tf.shape(source)[1]
        bias = padding_bias(tf.reduce_sum(tf.cast(source != PADDING, tf.int32), 1), length)
        x = self.dropout(self.embed(source, tf.range(length)), training=training)
        for layer in self.encoder:
            x = layer(x, bias, training=training)
        return x, bias

    def train_loss(self, batch: Tensors) -> Any:
        memory, bias = self.encode(batch["source"], training=True)
        target = batch["target"]
        given = tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=BEGIN)
        x = self.dropout(self.embed(given, tf.range(tf.shape(given)[1])), training=True)
        return smoothed_cross_entropy(self.logits(self.decoder(x, memory, bias, training=True)), target)

    def infer(self, batch: Tensors) -> dict[str, Any]:
        memory, bias = self.encode(batch["source"], training=False)
        translation = self.decoder.greedy(lambda word, place: self.embed(word, place[None]), self.logits, memory, bias,
                                          self._config.decoded, BEGIN, END)  # fmt: skip
        return {"memory": tf.cast(memory, tf.float32), "translation": translation}


def smoothed_cross_entropy(logits: Any, target: Any, smoothing: float = 0.1) -> Any:
    """Mean over the words that are no padding; the true word gets 1 - smoothing, the others share the rest."""
    vocabulary = logits.shape[-1]
    wanted = tf.one_hot(target, vocabulary, 1 - smoothing, smoothing / (vocabulary - 1))
    alive = tf.cast(target != PADDING, tf.float32)
    each = tf.nn.softmax_cross_entropy_with_logits(wanted, logits)
    return tf.reduce_sum(each * alive) / tf.reduce_sum(alive)


def sentences(random: np.random.Generator, batch: int, longest: int, vocabulary: int) -> np.ndarray:
    """Words and an END, padded: int32 [batch, longest]."""
    length = lengths(random, batch, longest)
    text = words(random, vocabulary, (batch, longest), SPECIAL)
    text[np.arange(batch), length - 1] = END
    return padded(text, length)


def data(config: Config, random: np.random.Generator) -> Data:
    def training(length: int) -> Batch:
        return {name: sentences(random, config.tokens // length, length, config.vocabulary)
                for name in ("source", "target")}  # fmt: skip

    inference = [{"source": sentences(random, 1, length, config.vocabulary)} for length in config.infer_lengths]
    return Data([training(length) for length in config.train_lengths], inference)


class Warmup(keras.optimizers.schedules.LearningRateSchedule):
    """Grows for `steps` steps, then falls with the square root of the step."""

    def __init__(self, width: int, steps: int = 4000) -> None:
        self._scale, self._steps = width**-0.5, steps

    def __call__(self, step: Any) -> Any:
        step = tf.cast(step, tf.float32) + 1
        return self._scale * tf.minimum(step**-0.5, step * self._steps**-1.5)


def optimizer(config: Config) -> keras.optimizers.Optimizer:
    return keras.optimizers.Adam(Warmup(config.width), beta_2=0.98, epsilon=1e-9)


MODEL = Model("transformer", CONFIGS, data, Transformer, optimizer, ("train", "infer"),
              dtypes=("float32", "mixed_float16", "mixed_bfloat16"))  # fmt: skip

if __name__ == "__main__":
    main(MODEL)
