"""Acoustic model of a speech recogniser: a stack of LSTMs over filterbank frames, trained with CTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.program import Batch, Data, Model, Tensors, shared
from models.recurrent import Recurrent
from models.script import main
from models.synthetic import lengths, padded


@dataclass(frozen=True)
class Config:
    """Sizes.

    Attributes:
        frames: lengths of the batches' longest recordings, after every three frames became one.
        bands: features of three frames of 40 bands.
    """

    batch: int
    frames: tuple[int, ...]
    phones: int
    layers: int
    hidden: int
    sounds: int
    bands: int = 120


CONFIGS = {
    "paper": Config(batch=32, frames=(200, 150), phones=40, layers=5, hidden=512, sounds=220),
    "medium": Config(batch=32, frames=(60, 45), phones=12, layers=3, hidden=128, sounds=220),
    "small": Config(batch=4, frames=(14, 10), phones=4, layers=2, hidden=16, sounds=12),
}


class LSTMStack(keras.layers.Layer):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self._blank = config.sounds
        self.layers = [Recurrent(keras.layers.LSTMCell(config.hidden)) for _ in range(config.layers)]
        self.norms = [keras.layers.LayerNormalization() for _ in range(config.layers)]
        self.out = keras.layers.Dense(config.sounds + 1)

    def logits(self, batch: Tensors) -> Any:
        x = batch["frames"]
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = norm(layer(x, batch["length"])[0])
        return self.out(x)

    def infer(self, batch: Tensors) -> dict[str, Any]:
        return {"sounds": tf.nn.log_softmax(self.logits(batch))}

    def train_loss(self, batch: Tensors) -> Any:
        return tf.reduce_mean(tf.nn.ctc_loss(batch["phones"], self.logits(batch), batch["phone_count"], batch["length"],
                                             logits_time_major=False, blank_index=self._blank))  # fmt: skip


def data(config: Config, random: np.random.Generator) -> Data:
    def batch(longest: int) -> Batch:
        length = lengths(random, config.batch, longest)
        frames = random.standard_normal((config.batch, longest, config.bands)).astype(np.float32)
        phones = random.integers(0, config.sounds, (config.batch, config.phones), np.int32)
        count = random.integers(1, config.phones + 1, config.batch, np.int32)
        return {"frames": padded(frames, length), "length": length, "phones": phones, "phone_count": count}

    return shared([batch(longest) for longest in config.frames], "frames", "length")


MODEL = Model("rokid", CONFIGS, data, LSTMStack, lambda _: keras.optimizers.Adam(0.001, global_clipnorm=5.0),
              ("train",))  # fmt: skip

if __name__ == "__main__":
    main(MODEL)
