"""A language model decodes as Keras does it: a loop whose body writes a cache of keys and values at its counter
(GPT-2's layers; Radford et al., 2019). It takes the likeliest word, or draws one of the likeliest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from models.block import Block
from models.program import Data, Model, Tensors
from models.script import main
from models.synthetic import words

BLOCKED = -1e9


@dataclass(frozen=True)
class Config:
    """Sizes.

    Attributes:
        batch: texts that go on at once.
        given: words of a text that are there; text i has i more.
        length: words of a text in the end.
        best: how many words a draw is of.
    """

    batch: int
    given: int
    length: int
    layers: int
    width: int
    heads: int
    vocabulary: int
    best: int = 5


CONFIGS = {
    "paper": Config(batch=1, given=1, length=97, layers=6, width=768, heads=12, vocabulary=50257),
    "medium": Config(batch=1, given=1, length=49, layers=2, width=256, heads=4, vocabulary=4000),
    "small": Config(batch=2, given=3, length=16, layers=2, width=32, heads=4, vocabulary=120),
}


class Layer(Block):
    """A layer of a decoder, with its norms before what is added."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self._heads, self._scale = heads, (width // heads) ** -0.5
        self.norms = [keras.layers.LayerNormalization(epsilon=1e-5) for _ in range(2)]
        self.query, self.key, self.value, self.out = (keras.layers.Dense(width) for _ in range(4))
        self.wide, self.narrow = keras.layers.Dense(4 * width, "gelu"), keras.layers.Dense(width)

    def call(self, x: Any, cache: Any, at: Any) -> Any:
        """x [batch, n, width] at places `at` ... at + n - 1; the result and the cache [batch, 2, length, heads, depth]
        with their keys and values."""
        normed = self.norms[0](x)
        keys, values = (ops.slice_update(cache[:, i], [0, at, 0, 0], self._split(dense(normed)))
                        for i, dense in enumerate((self.key, self.value)))
        scores = ops.einsum("bqhd,bkhd->bhqk", self._split(self.query(normed)) * self._scale, keys)
        n, length = x.shape[1], cache.shape[2]
        seen = ops.arange(length)[None] <= at + ops.arange(n)[:, None]
        mixed = ops.einsum("bhqk,bkhd->bqhd", ops.softmax(ops.where(seen, scores, BLOCKED)), values)
        x = x + self.out(ops.reshape(mixed, ops.shape(x)))
        return x + self.narrow(self.wide(self.norms[1](x))), ops.stack([keys, values], axis=1)

    def _split(self, x: Any) -> Any:
        return ops.reshape(x, (-1, x.shape[1], self._heads, x.shape[2] // self._heads))


class Decoder(keras.layers.Layer):
    """A language model that goes on with texts: what all have alike."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._config = config
        normal = keras.initializers.RandomNormal(stddev=0.02)
        self.words = keras.layers.Embedding(config.vocabulary, config.width, normal)

    def logits(self, text: Any, cache: Any, at: Any) -> tuple[Any, Any]:
        """Of words [batch, n] at places `at` ... at + n - 1: [batch, n, vocabulary], and the cache with them."""
        raise NotImplementedError

    def cache(self, batch: Any) -> Any:
        """Empty: [batch, layers, 2, length, heads, depth]."""
        raise NotImplementedError

    def train_loss(self, batch: Tensors) -> Any:
        text = batch["text"]
        self.words.build(None)
        logits, _ = self.logits(text, self.cache(text.shape[0]), 0)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(text[:, 1:], logits[:, :-1]))

    def infer(self, batch: Tensors) -> dict[str, Any]:
        return {"likeliest": self.go_on(batch, self.likeliest),
                "drawn": self.go_on(batch, self.draw)}  # fmt: skip

    def go_on(self, batch: Tensors, choose: Any) -> Any:
        """Texts [batch, length] that go on from where they are given (`there`)."""
        text, there = batch["text"], batch["there"]
        at = ops.min(ops.sum(ops.cast(there, "int32"), axis=-1))
        _, cache = self.logits(text, self.cache(text.shape[0]), 0)

        def body(text: Any, cache: Any, at: Any) -> tuple[Any, Any, Any]:
            last = ops.slice(text, [0, at - 1], [text.shape[0], 1])
            logits, cache = self.logits(last, cache, at - 1)
            word = ops.cast(choose(logits[:, 0], at), "int32")
            word = ops.where(there[:, at], text[:, at], word)
            return ops.slice_update(text, [0, at], word[:, None]), cache, at + 1

        return ops.while_loop(lambda text, cache, at: at < self._config.length, body, (text, cache, at))[0]

    def likeliest(self, logits: Any, at: Any) -> Any:
        """The next word [batch], of logits [batch, vocabulary]."""
        return ops.argmax(logits, axis=-1)

    def draw(self, logits: Any, at: Any) -> Any:
        best, choices = ops.top_k(logits, self._config.best)
        drawn = tf.random.stateless_categorical(best, 1, seed=ops.stack([7, at]), dtype=tf.int32)
        return ops.take_along_axis(choices, drawn, axis=-1)[:, 0]


class LanguageModel(Decoder):
    """GPT-2: learned places, and the table of words for its logits."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        normal = keras.initializers.RandomNormal(stddev=0.02)
        self.places = keras.layers.Embedding(config.length, config.width, normal)
        self.decoders = [Layer(config.width, config.heads) for _ in range(config.layers)]
        self.norm = keras.layers.LayerNormalization(epsilon=1e-5)

    def logits(self, text: Any, cache: Any, at: Any) -> tuple[Any, Any]:
        places = ops.slice(ops.convert_to_tensor(self.places.embeddings), [at, 0], [text.shape[1], self._config.width])
        x = self.words(text) + ops.cast(places, self.compute_dtype)
        caches = []
        for i, layer in enumerate(self.decoders):
            x, new = layer(x, cache[:, i], at=at)
            caches.append(new)
        table = ops.cast(ops.convert_to_tensor(self.words.embeddings), self.compute_dtype)
        return ops.matmul(self.norm(x), ops.transpose(table)), ops.stack(caches, axis=1)

    def cache(self, batch: Any) -> Any:
        config = self._config
        shape = (batch, config.layers, 2, config.length, config.heads, config.width // config.heads)
        return ops.zeros(shape, self.compute_dtype)

    def train_loss(self, batch: Tensors) -> Any:
        self.places.build(None)
        return super().train_loss(batch)


def data(config: Config, random: np.random.Generator) -> Data:
    batches = []
    for _ in range(2):
        text = words(random, config.vocabulary, (config.batch, config.length))
        there = np.arange(config.length) < config.given + np.arange(config.batch)[:, None]
        batches.append({"text": np.where(there, text, 0).astype(np.int32), "there": there})
    return Data(batches, batches)


MODEL = Model("decoding", CONFIGS, data, LanguageModel, lambda _: keras.optimizers.Adam(), ("infer",))

if __name__ == "__main__":
    main(MODEL)
