"""A language model of two LSTM layers (Zaremba et al., 2014): trains on whole texts, and goes on with them by the
likeliest words, or by drawn ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from models.program import Data, Model, Tensors, shared
from models.script import main
from models.synthetic import words


@dataclass(frozen=True)
class Config:
    """Sizes.

    Attributes:
        length: words of a text that is trained on, or gone on with.
        more: words that are added to it.
        use_cudnn: of the layers, as Keras has it: without it they are loops, with it on a GPU cuDNN's op.
    """

    batch: int
    length: int
    more: int
    width: int
    vocabulary: int
    layers: int = 2
    use_cudnn: bool | str = False


CONFIGS = {
    "paper": Config(batch=32, length=100, more=50, width=256, vocabulary=10000),
    "paper_cudnn": Config(batch=32, length=100, more=50, width=256, vocabulary=10000, use_cudnn="auto"),
    "medium": Config(batch=16, length=30, more=30, width=128, vocabulary=2000),
    "small": Config(batch=4, length=7, more=6, width=12, vocabulary=50),
    "small_cudnn": Config(batch=4, length=7, more=6, width=12, vocabulary=50, use_cudnn="auto"),
}


class LSTMLanguageModel(layers.Layer):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self._config = config
        self.words = layers.Embedding(config.vocabulary, config.width)
        self.lstms = [layers.LSTM(config.width, return_sequences=True, return_state=True, use_cudnn=config.use_cudnn)
                      for _ in range(config.layers)]  # fmt: skip
        self.scores = layers.Dense(config.vocabulary)

    def read(self, text: Any) -> tuple[Any, list[Any]]:
        """Logits after each word of [batch, length], and each layer's state behind the last."""
        x, states = self.words(text), []
        for lstm in self.lstms:
            x, *state = lstm(x)
            states.append(state)
        return self.scores(x), states

    def train_loss(self, batch: Tensors) -> Any:
        logits, _ = self.read(batch["text"][:, :-1])
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(batch["text"][:, 1:], logits))

    def infer(self, batch: Tensors) -> dict[str, Any]:
        text = batch["text"]
        logits, states = self.read(text)
        return {"likeliest": self.go_on(logits[:, -1], states, lambda logits, at: ops.argmax(logits, axis=-1)),
                "drawn": self.go_on(logits[:, -1], states, self.draw)}  # fmt: skip

    def go_on(self, logits: Any, states: Any, choose: Any) -> Any:
        """So many more words [batch, more], the first by these logits [batch, vocabulary]."""
        config = self._config
        text = ops.zeros((logits.shape[0], config.more), "int32")

        def body(at: Any, logits: Any, states: Any, text: Any) -> tuple[Any, Any, Any, Any]:
            word = ops.cast(choose(logits, at), "int32")
            x, new = self.words(word), []
            for lstm, state in zip(self.lstms, states, strict=True):
                x, state = lstm.cell(x, state)
                new.append(list(state))
            return at + 1, self.scores(x), new, ops.slice_update(text, [0, at], word[:, None])

        return ops.while_loop(lambda at, *_: at < config.more, body, (0, logits, states, text))[3]

    def draw(self, logits: Any, at: Any) -> Any:
        return tf.random.stateless_categorical(logits, 1, seed=ops.stack([7, at]), dtype=tf.int32)[:, 0]


def data(config: Config, random: np.random.Generator) -> Data:
    batches = [{"text": words(random, config.vocabulary, (config.batch, config.length)).astype(np.int32)}
               for _ in range(2)]  # fmt: skip
    return shared(batches, "text")


MODEL = Model("lstm-language", CONFIGS, data, LSTMLanguageModel, lambda _: keras.optimizers.Adam(0.003),
              ("train", "infer"))

if __name__ == "__main__":
    main(MODEL)
