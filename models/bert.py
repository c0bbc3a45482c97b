"""BERT: an encoder pretrained by masked words and by whether two texts follow each other.

Inference gives the vectors of all words and of the whole text. Sizes of "base" (Devlin et al.).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.attention import EncoderLayer, padding_bias
from models.program import Batch, Data, Model, Tensors
from models.script import main
from models.synthetic import lengths, padded, words

SPECIAL = 4
"""Words kept for padding and marks."""


@dataclass(frozen=True)
class Config:
    train_batch: int
    infer_batch: int
    length: int
    masked: int
    layers: int
    width: int
    heads: int
    vocabulary: int
    dropout: float = 0.1


CONFIGS = {
    "paper": Config(train_batch=12, infer_batch=200, length=128, masked=20, layers=12, width=768, heads=12,
                    vocabulary=30522),
    "medium": Config(train_batch=4, infer_batch=12, length=128, masked=20, layers=4, width=128, heads=4,
                     vocabulary=8000),
    "small": Config(train_batch=4, infer_batch=4, length=24, masked=4, layers=2, width=32, heads=4, vocabulary=200),
}  # fmt: skip


class Bert(keras.layers.Layer):
    def __init__(self, config: Config) -> None:
        super().__init__()
        normal = keras.initializers.TruncatedNormal(stddev=0.02)
        width = config.width
        self.words, self.segments, self.places = (
            keras.layers.Embedding(rows, width, normal) for rows in (config.vocabulary, 2, config.length)
        )
        self.norm, self.dropout = keras.layers.LayerNormalization(epsilon=1e-12), keras.layers.Dropout(config.dropout)
        self.layers = [EncoderLayer(width, config.heads, 4 * width, config.dropout, "gelu", epsilon=1e-12)
                       for _ in range(config.layers)]  # fmt: skip
        self.pooler = keras.layers.Dense(width, activation="tanh")
        self.transform = keras.layers.Dense(width, activation="gelu")
        self.transform_norm = keras.layers.LayerNormalization(epsilon=1e-12)
        self.word_bias = self.add_weight(shape=(config.vocabulary,), initializer="zeros")
        self.follows = keras.layers.Dense(2)

    def encode(self, batch: Tensors, training: bool) -> tuple[Any, Any]:
        """Vectors of words [batch, length, width] and of texts [batch, width]."""
        length = tf.shape(batch["word"])[1]
        x = self.words(batch["word"]) + self.segments(batch["segment"]) + self.places(tf.range(length))
        x = self.dropout(self.norm(x), training=training)
        bias = padding_bias(batch["length"], length)
        for layer in self.layers:
            x = layer(x, bias, training=training)
        return x, self.pooler(x[:, 0])

    def infer(self, batch: Tensors) -> dict[str, Any]:
        x, text = self.encode(batch, training=False)
        return {"words": tf.cast(x, tf.float32), "text": tf.cast(text, tf.float32)}

    def train_loss(self, batch: Tensors) -> Any:
        x, text = self.encode(batch, training=True)
        hidden = self.transform_norm(self.transform(tf.gather(x, batch["place"], batch_dims=1)))
        logits = tf.einsum("bmw,vw->bmv", hidden, tf.cast(self.words.embeddings, hidden.dtype))
        logits = tf.cast(logits, tf.float32) + self.word_bias
        masked = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["masked"], logits)
        weight = batch["weight"]
        follows = tf.cast(self.follows(text), tf.float32)
        next_text = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["follows"], follows)
        return tf.reduce_sum(masked * weight) / (tf.reduce_sum(weight) + 1e-5) + tf.reduce_mean(next_text)


def data(config: Config, random: np.random.Generator) -> Data:
    def inference(batch: int) -> dict[str, np.ndarray]:
        length = lengths(random, batch, config.length)
        word = padded(words(random, config.vocabulary, (batch, config.length), SPECIAL), length)
        segment = (np.arange(config.length) >= length[:, None] // 2).astype(np.int32)
        return {"word": word, "segment": segment, "length": length}

    def training() -> Batch:
        batch = inference(config.train_batch)
        shape = (config.train_batch, config.masked)
        return {**batch, "place": random.integers(0, batch["length"][:, None], shape, np.int32),
                "masked": words(random, config.vocabulary, shape, SPECIAL),
                "weight": (random.random(shape) < 0.9).astype(np.float32),
                "follows": random.integers(0, 2, config.train_batch, np.int32)}  # fmt: skip

    return Data([training() for _ in range(2)], [inference(config.infer_batch) for _ in range(2)])


def optimizer(config: Config) -> keras.optimizers.Optimizer:
    """AdamW whose rate grows for 100 steps and then falls; no decay of biases and normalisations."""
    rate = keras.optimizers.schedules.PolynomialDecay(1e-4, 10000, 0.0)
    adam = keras.optimizers.AdamW(rate, weight_decay=0.01, epsilon=1e-6, global_clipnorm=1.0)
    adam.exclude_from_weight_decay(var_names=["bias", "beta", "gamma"])
    return adam


MODEL = Model("bert", CONFIGS, data, Bert, optimizer, ("train", "infer"),
              dtypes=("float32", "mixed_float16", "mixed_bfloat16"))  # fmt: skip

if __name__ == "__main__":
    main(MODEL)
