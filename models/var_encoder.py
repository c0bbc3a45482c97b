"""A variational autoencoder of handwritten digits (TensorFlow-Examples, variational_autoencoder).

Inference decodes points of the latent plane into images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.classification import dense
from models.program import Data, Model, Program, SessionProgram, Tensors
from models.script import main
from models.synthetic import images

RATE, PIXELS, LATENT = 0.001, 784, 2


@dataclass(frozen=True)
class Config:
    batch: int
    hidden: int


CONFIGS = {"paper": Config(batch=64, hidden=512), "medium": Config(batch=64, hidden=4096),
           "small": Config(batch=32, hidden=64)}


class VariationalEncoder(keras.layers.Layer):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.encoder = keras.layers.Dense(config.hidden, activation="tanh")
        self.mean, self.spread = keras.layers.Dense(LATENT), keras.layers.Dense(LATENT)
        self.decoder = keras.Sequential([
            keras.layers.Dense(config.hidden, activation="tanh"), keras.layers.Dense(PIXELS, activation="sigmoid")
        ])

    def infer(self, batch: Tensors) -> dict[str, Any]:
        return {"image": self.decoder(batch["point"])}

    def train_loss(self, batch: Tensors) -> Any:
        code = self.encoder(batch["image"])
        mean, spread = self.mean(code), self.spread(code)
        return variational_loss(batch["image"], self.decoder(sample(mean, spread)), mean, spread)


def sample(mean: Any, spread: Any) -> Any:
    """A point around `mean` whose variance is exp(spread)."""
    return mean + tf.exp(spread / 2) * tf.random.normal(tf.shape(spread))


def variational_loss(image: Any, decoded: Any, mean: Any, spread: Any) -> Any:
    """Reconstruction by cross-entropy, and divergence from the unit normal distribution."""
    hit = image * tf.math.log(1e-10 + decoded) + (1 - image) * tf.math.log(1e-10 + 1 - decoded)
    divergence = 1 + spread - tf.square(mean) - tf.exp(spread)
    return tf.reduce_mean(-tf.reduce_sum(hit, 1) - 0.5 * tf.reduce_sum(divergence, 1))


def session(config: Config, data: Data) -> Program:
    def layer(x: Any, name: str, units: int) -> Any:
        return dense(x, name, units, (x.shape[-1] / 2) ** -0.5)

    def decode(z: Any) -> Any:
        return tf.sigmoid(layer(tf.tanh(layer(z, "decoder", config.hidden)), "out", PIXELS))

    image = tf.compat.v1.placeholder(tf.float32, [None, PIXELS], "image")
    point = tf.compat.v1.placeholder(tf.float32, [None, LATENT], "point")
    code = tf.tanh(layer(image, "encoder", config.hidden))
    mean, spread = layer(code, "mean", LATENT), layer(code, "spread", LATENT)
    loss = variational_loss(image, decode(sample(mean, spread)), mean, spread)
    train = tf.compat.v1.train.RMSPropOptimizer(RATE).minimize(loss)
    return SessionProgram({"image": image, "point": point}, loss, train, {"image": decode(point)}, data)


def data(config: Config, random: np.random.Generator) -> Data:
    points = random.standard_normal((config.batch, LATENT)).astype(np.float32)
    return Data([{"image": images(random, config.batch)} for _ in range(4)], [{"point": points}])


MODEL = Model("var-encoder", CONFIGS, data, VariationalEncoder, lambda _: keras.optimizers.RMSprop(RATE), ("train",),
              session)  # fmt: skip

if __name__ == "__main__":
    main(MODEL)
