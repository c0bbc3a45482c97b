"""CRNN reads a line of text in an image: convolutions, two bidirectional LSTMs over the columns, CTC (Shi et al.).

Images are 32 pixels high and as wide as their text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.program import Batch, Data, Model, Tensors
from models.recurrent import Bidirectional
from models.script import main

HEIGHT, CLASSES = 32, 37
"""Letters, digits, and CTC's blank, which is the last."""

CONVOLUTIONS = ((1, (2, 2)), (2, (2, 2)), (4, None), (4, (2, 1)), (8, None), (8, (2, 1)))
"""(channels as a multiple of the first layer's, pooling [height, width])"""


@dataclass(frozen=True)
class Config:
    train_batch: int
    infer_batch: int
    widths: tuple[int, ...]
    letters: int
    channels: int
    hidden: int


CONFIGS = {
    "paper": Config(train_batch=64, infer_batch=1, widths=(100, 160), letters=8, channels=64, hidden=256),
    "medium": Config(train_batch=4, infer_batch=1, widths=(400, 640), letters=8, channels=16, hidden=64),
    "small": Config(train_batch=4, infer_batch=1, widths=(36, 52), letters=3, channels=8, hidden=16),
}


class CRNN(keras.layers.Layer):
    def __init__(self, config: Config) -> None:
        super().__init__()
        layers: list[Any] = []
        for i, (multiple, pool) in enumerate(CONVOLUTIONS):
            layers.append(keras.layers.Conv2D(multiple * config.channels, 3, padding="same"))
            layers += [keras.layers.BatchNormalization()] if i >= 4 else []
            layers.append(keras.layers.ReLU())
            layers += [keras.layers.MaxPooling2D(pool)] if pool else []
        layers.append(keras.layers.Conv2D(8 * config.channels, 2, activation="relu"))
        self.layers = layers
        self.lstms = [Bidirectional(lambda: keras.layers.LSTMCell(config.hidden)) for _ in range(2)]
        self.between, self.out = keras.layers.Dense(config.hidden), keras.layers.Dense(CLASSES)

    def logits(self, image: Any, training: bool) -> Any:
        """Images [batch, 32, width, 1] to [batch, about width / 4, classes]."""
        x = image
        for layer in self.layers:
            x = layer(x, training=training) if isinstance(layer, keras.layers.BatchNormalization) else layer(x)
        x = tf.squeeze(x, 1)
        x = self.between(self.lstms[0](x)[0])
        return self.out(self.lstms[1](x)[0])

    def train_loss(self, batch: Tensors) -> Any:
        logits = self.logits(batch["image"], training=True)
        rows, columns = tf.shape(logits)[0], tf.shape(logits)[1]
        return tf.reduce_mean(tf.nn.ctc_loss(batch["text"], logits, batch["length"], tf.fill([rows], columns),
                                             logits_time_major=False, blank_index=CLASSES - 1))  # fmt: skip

    def infer(self, batch: Tensors) -> dict[str, Any]:
        """The best class of each column; a text begins anew where it changes."""
        probabilities = tf.nn.softmax(self.logits(batch["image"], training=False))
        best = tf.argmax(probabilities, -1, tf.int32)
        starts = tf.concat([tf.ones_like(best[:, :1], tf.bool), best[:, 1:] != best[:, :-1]], 1)
        return {"probabilities": probabilities, "text": tf.where(starts & (best != CLASSES - 1), best, -1)}


def data(config: Config, random: np.random.Generator) -> Data:
    def image(batch: int, width: int) -> np.ndarray:
        """Strokes in columns: neighbouring pixels are alike."""
        coarse = random.random((batch, HEIGHT // 4, -(-width // 4)))
        return coarse.repeat(4, 1).repeat(4, 2)[:, :, :width, None].astype(np.float32)

    def training(width: int) -> Batch:
        shape = (config.train_batch, config.letters)
        return {"image": image(config.train_batch, width), "text": random.integers(0, CLASSES - 1, shape, np.int32),
                "length": random.integers(1, config.letters + 1, config.train_batch, np.int32)}  # fmt: skip

    return Data([training(width) for width in config.widths],
                [{"image": image(config.infer_batch, width)} for width in config.widths])  # fmt: skip


def optimizer(config: Config) -> keras.optimizers.Optimizer:
    return keras.optimizers.Adadelta(1.0, rho=0.9, global_clipnorm=5.0)


MODEL = Model("crnn", CONFIGS, data, CRNN, optimizer, ("infer",))

if __name__ == "__main__":
    main(MODEL)
