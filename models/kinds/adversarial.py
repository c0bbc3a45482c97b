"""Two networks that train against each other in one step, with spectral norms (Miyato et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from models.network import prepared

NOISE = 64


@dataclass(frozen=True)
class Adversarial:
    """A generator of images and a judge of them, each with its optimizer."""

    generator: keras.Model
    model: keras.Model
    optimizers: tuple[keras.optimizers.Optimizer, keras.optimizers.Optimizer]

    def train(self, real: Any, noise: Any) -> Any:
        """One step of both; the sum of their losses before it."""
        with tf.GradientTape(persistent=True) as tape:
            made = self.generator(noise, training=True)
            good, bad = (tf.cast(self.model(image, training=True), tf.float32) for image in (real, made))
            losses = (tf.reduce_mean(tf.nn.softplus(-bad)),
                      tf.reduce_mean(tf.nn.softplus(-good)) + tf.reduce_mean(tf.nn.softplus(bad)))
            scaled = [own.scale_loss(loss) for own, loss in zip(self.optimizers, losses, strict=True)]
        for own, loss, network in zip(self.optimizers, scaled, (self.generator, self.model), strict=True):
            own.apply(tape.gradient(loss, network.trainable_variables), network.trainable_variables)
        return sum(losses)

    def infer(self, noise: Any) -> Any:
        return self.generator(noise, training=False)

    def batch(self, size: int, seed: int = 0) -> tuple[Any, ...]:
        """So many images, and noise to make others of."""
        random = np.random.default_rng(seed)
        shapes = (self.model.input_shape[1:], (NOISE,))
        return tuple(random.standard_normal((size, *shape)).astype(np.float32) for shape in shapes)


def spectral_gan(small: bool) -> Adversarial:
    widths = (16, 8) if small else (512, 256, 128, 64)
    side = 4 << len(widths)
    x = noise = keras.Input((NOISE,))
    x = layers.Reshape((4, 4, widths[0]))(layers.Dense(16 * widths[0], use_bias=False)(x))
    for width in (*widths[1:], 3):
        x = layers.LeakyReLU()(layers.BatchNormalization()(x))
        x = layers.Conv2DTranspose(width, 5, 2, "same", use_bias=width == 3)(x)
    generator = keras.Model(noise, layers.Activation("tanh", dtype="float32")(x))
    x = image = keras.Input((side, side, 3))
    for width in reversed(widths):
        x = layers.SpectralNormalization(layers.Conv2D(width, 5, 2, "same"))(x)
        x = layers.Dropout(0.3)(layers.LeakyReLU()(x))
    judge = keras.Model(image, layers.Dense(1)(layers.Flatten()(x)))
    own, others = (prepared(keras.optimizers.Adam(1e-4, 0.5), network.trainable_variables)
                   for network in (generator, judge))
    return Adversarial(generator, judge, (own, others))
