"""Speech recognition as in ESPnet: convolutions quarter the frames, a transformer encodes them, and CTC and an
attention decoder share the loss. Inference decodes greedily, one recording at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.attention import Decoder, DecoderLayer, EncoderLayer, padding_bias, sinusoids
from models.program import Batch, Data, Model, Tensors
from models.script import main
from models.synthetic import lengths, padded
from models.transformer import BEGIN, END, Warmup, sentences, smoothed_cross_entropy

CTC_SHARE = 0.3


@dataclass(frozen=True)
class Config:
    """Sizes.

    Attributes:
        frames: lengths of recordings, each a batch; 100 are a second.
        mels: features of a frame: 80 mel bands and 3 of pitch.
    """

    train_batch: int
    infer_batch: int
    frames: tuple[int, ...]
    letters: int
    encoder_layers: int
    decoder_layers: int
    width: int
    heads: int
    hidden: int
    vocabulary: int
    mels: int = 83
    dropout: float = 0.1


CONFIGS = {
    "paper": Config(train_batch=16, infer_batch=1, frames=(800, 500), letters=40, encoder_layers=12, decoder_layers=6,
                    width=256, heads=4, hidden=2048, vocabulary=5000),
    "medium": Config(train_batch=2, infer_batch=1, frames=(800, 500), letters=20, encoder_layers=4, decoder_layers=2,
                     width=128, heads=4, hidden=512, vocabulary=2000),
    "small": Config(train_batch=4, infer_batch=1, frames=(64, 48), letters=6, encoder_layers=1, decoder_layers=1,
                    width=32, heads=4, hidden=64, vocabulary=40),
}  # fmt: skip


class SpeechTransformer(keras.layers.Layer):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self._config = config
        size = (config.width, config.heads, config.hidden, config.dropout)
        self.convolutions = [keras.layers.Conv2D(config.width, 3, 2, activation="relu") for _ in range(2)]
        self.entry = keras.layers.Dense(config.width)
        self.dropout = keras.layers.Dropout(config.dropout)
        self.encoder = [EncoderLayer(*size, norm_first=True) for _ in range(config.encoder_layers)]
        self.norm, self.decoder_norm = keras.layers.LayerNormalization(), keras.layers.LayerNormalization()
        self.words = keras.layers.Embedding(config.vocabulary, config.width)
        self.decoder = Decoder([DecoderLayer(*size, norm_first=True) for _ in range(config.decoder_layers)])
        self.ctc, self.out = keras.layers.Dense(config.vocabulary + 1), keras.layers.Dense(config.vocabulary)
        self._places = sinusoids(max(config.frames) // 4 + config.letters, config.width)

    def encode(self, frames: Any, length: Any, training: bool) -> tuple[Any, Any, Any]:
        """Of frames [batch, time, mels]: memory [batch, time / 4, width], its bias, and its lengths."""
        x = frames[..., None]
        for convolution in self.convolutions:
            x = convolution(x)
            length = (length - 1) // 2
        time = tf.shape(x)[1]
        x = self.entry(tf.reshape(x, [tf.shape(x)[0], time, x.shape[2] * x.shape[3]])) * self._config.width**0.5
        x = self.dropout(x + tf.gather(self._places, tf.range(time)), training=training)
        bias = padding_bias(length, time)
        for layer in self.encoder:
            x = layer(x, bias, training=training)
        return self.norm(x), bias, length

    def embed(self, word: Any, place: Any) -> Any:
        return self.words(word) * self._config.width**0.5 + tf.gather(self._places, place)

    def logits(self, x: Any) -> Any:
        return self.out(self.decoder_norm(x))

    def train_loss(self, batch: Tensors) -> Any:
        memory, bias, length = self.encode(batch["frames"], batch["length"], training=True)
        text = batch["text"]
        given = tf.pad(text[:, :-1], [[0, 0], [1, 0]], constant_values=BEGIN)
        x = self.dropout(self.embed(given, tf.range(tf.shape(given)[1])), training=True)
        attention = smoothed_cross_entropy(self.logits(self.decoder(x, memory, bias, training=True)), text)
        letters = tf.reduce_sum(tf.cast(text != 0, tf.int32), 1)
        ctc = tf.nn.ctc_loss(text, self.ctc(memory), letters, length, logits_time_major=False,
                             blank_index=self._config.vocabulary)  # fmt: skip
        return CTC_SHARE * tf.reduce_mean(ctc) + (1 - CTC_SHARE) * attention

    def infer(self, batch: Tensors) -> dict[str, Any]:
        memory, bias, _ = self.encode(batch["frames"], batch["length"], training=False)
        text = self.decoder.greedy(lambda word, place: self.embed(word, place[None]), self.logits, memory, bias,
                                   self._config.letters, BEGIN, END)  # fmt: skip
        return {"ctc": tf.nn.log_softmax(self.ctc(memory)), "text": text}


def data(config: Config, random: np.random.Generator) -> Data:
    def recording(batch: int, longest: int) -> dict[str, np.ndarray]:
        length = lengths(random, batch, longest)
        frames = random.standard_normal((batch, longest, config.mels)).astype(np.float32)
        return {"frames": padded(frames, length), "length": length}

    def training(longest: int) -> Batch:
        text = sentences(random, config.train_batch, config.letters, config.vocabulary)
        return {**recording(config.train_batch, longest), "text": text}

    return Data([training(longest) for longest in config.frames],
                [recording(config.infer_batch, longest) for longest in config.frames])  # fmt: skip


def optimizer(config: Config) -> keras.optimizers.Optimizer:
    rate = Warmup(config.width, steps=25000)
    return keras.optimizers.Adam(rate, beta_2=0.98, epsilon=1e-9, global_clipnorm=5.0)


MODEL = Model("asr", CONFIGS, data, SpeechTransformer, optimizer, ("infer",))

if __name__ == "__main__":
    main(MODEL)
