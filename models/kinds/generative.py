"""Images that are coded and made: by random codes, by a book of codes, by maps that turn back, pixel by pixel, and
against a critic."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from models.kinds.draws import normal, uniform
from models.kinds.losses import in_float32
from models.kinds.objective import Objective
from models.network import Network, prepared


def vae(small: bool) -> Objective:
    """Kingma and Welling, 2013."""
    side, width, size_of_code = (16, 8, 16) if small else (64, 64, 128)
    x = image = keras.Input((side, side, 3))
    for wider in (1, 2, 4):
        x = layers.Conv2D(width * wider, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Flatten()(x)
    encoder = keras.Model(image, [layers.Dense(size_of_code)(x), layers.Dense(size_of_code)(x)])
    code, least = keras.Input((size_of_code,)), side // 8
    x = layers.Dense(least * least * width * 4, activation="relu")(code)
    x = layers.Reshape((least, least, width * 4))(x)
    for wider in (4, 2, 1):
        x = layers.Conv2DTranspose(width * wider, 3, strides=2, padding="same", activation="relu")(x)
    decoder = keras.Model(code, layers.Conv2D(3, 3, padding="same", activation="sigmoid")(x))
    seeds = keras.random.SeedGenerator(1)

    def loss(images: Any) -> Any:
        mean, log_variance = map(in_float32, encoder(images, training=True))
        noise = keras.random.normal(tf.shape(mean), seed=seeds, dtype=mean.dtype)
        made = in_float32(decoder(mean + tf.exp(0.5 * log_variance) * noise, training=True))
        divergence = -0.5 * tf.reduce_sum(1 + log_variance - tf.square(mean) - tf.exp(log_variance), 1)
        error = tf.reduce_sum(keras.losses.binary_crossentropy(images, made), (1, 2))
        return tf.reduce_mean(error + divergence)

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return (uniform(random, size, side, side, 3),)

    variables = encoder.trainable_variables + decoder.trainable_variables
    return Objective(variables, prepared(keras.optimizers.Adam(1e-3), variables), loss, draw)


def vqvae(small: bool) -> Objective:
    """The nearest codes of a book, with gradients straight through (van den Oord et al., 2017)."""
    (side, width, codes), size_of_code = (16, 8, 16) if small else (64, 128, 512), 64
    image = keras.Input((side, side, 3))
    x = layers.Conv2D(width, 4, strides=2, padding="same", activation="relu")(image)
    x = layers.Conv2D(width, 4, strides=2, padding="same", activation="relu")(x)
    encoder = keras.Model(image, layers.Conv2D(size_of_code, 1)(x))
    coded = keras.Input((side // 4, side // 4, size_of_code))
    x = layers.Conv2DTranspose(width, 4, strides=2, padding="same", activation="relu")(coded)
    decoder = keras.Model(coded, layers.Conv2DTranspose(3, 4, strides=2, padding="same")(x))
    first = np.random.default_rng(0).uniform(-1 / codes, 1 / codes, (size_of_code, codes))
    book = tf.Variable(first.astype(np.float32))

    def loss(images: Any) -> Any:
        found = in_float32(encoder(images, training=True))
        flat = tf.reshape(found, (-1, size_of_code))
        apart = tf.reduce_sum(flat**2, 1, keepdims=True) + tf.reduce_sum(book**2, 0) - 2 * tf.matmul(flat, book)
        nearest = tf.one_hot(tf.argmin(apart, 1), codes)
        code = tf.reshape(tf.matmul(nearest, book, transpose_b=True), tf.shape(found))
        kept = 0.25 * tf.reduce_mean((tf.stop_gradient(code) - found) ** 2)
        learned = tf.reduce_mean((code - tf.stop_gradient(found)) ** 2)
        made = in_float32(decoder(found + tf.stop_gradient(code - found), training=True))
        return tf.reduce_mean((made - images) ** 2) + (kept + learned)

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return (normal(random, size, side, side, 3),)

    variables = [*encoder.trainable_variables, *decoder.trainable_variables, book]
    return Objective(variables, prepared(keras.optimizers.Adam(1e-3), variables), loss, draw)


def realnvp(small: bool) -> Objective:
    """Coupled maps of rows that turn back, and their volumes (Dinh et al., 2016)."""
    width, depth, columns = (8, 2, 4) if small else (256, 8, 64)

    def coupling() -> keras.Model:
        x = given = keras.Input((columns,))
        for _ in range(3):
            x = layers.Dense(width, activation="relu")(x)
        return keras.Model(given, [layers.Dense(columns, activation="tanh")(x), layers.Dense(columns)(x)])

    couplings = [coupling() for _ in range(depth)]
    masks = np.tile([[0, 1] * (columns // 2), [1, 0] * (columns // 2)], (depth // 2, 1)).astype(np.float32)

    def loss(rows: Any) -> Any:
        log_volume = 0.0
        for mask, network in zip(reversed(masks), reversed(couplings), strict=True):
            mask = tf.cast(mask, rows.dtype)
            kept = rows * mask
            scale, shift = (in_float32(part) * (1 - mask) for part in network(kept))
            rows = (1 - mask) * (rows * tf.exp(-scale) - shift * tf.exp(-scale)) + kept
            log_volume -= tf.reduce_sum(scale, 1)
        return -tf.reduce_mean(log_volume - 0.5 * tf.reduce_sum(rows * rows, 1))

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return (normal(random, size * 8, columns),)

    variables = [variable for network in couplings for variable in network.trainable_variables]
    return Objective(variables, prepared(keras.optimizers.Adam(1e-3), variables), loss, draw)


class Masked(layers.Layer):
    """A convolution that sees pixels above and to the left, perhaps its own (van den Oord et al., 2016)."""

    def __init__(self, filters: int, kernel_size: int, sees_own: bool) -> None:
        super().__init__()
        self.conv = layers.Conv2D(filters, kernel_size)
        middle = kernel_size // 2
        self.mask = np.zeros((kernel_size, kernel_size, 1, 1), np.float32)
        self.mask[:middle] = 1
        self.mask[middle, :middle + sees_own] = 1

    def build(self, shape: Any) -> None:
        self.conv.build(shape)
        self.mask = np.broadcast_to(self.mask, self.conv.kernel.shape)
        super().build(shape)

    def call(self, x: Any) -> Any:
        kernel = tf.cast(self.conv.kernel * self.mask, x.dtype)
        return tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME") + tf.cast(self.conv.bias, x.dtype))

    def compute_output_spec(self, x: Any) -> Any:
        return keras.KerasTensor((*x.shape[:3], self.conv.filters), self.compute_dtype)


def pixelcnn(small: bool) -> Network:
    """Each pixel from those before it (van den Oord et al., 2016)."""
    side, width, depth = (8, 8, 1) if small else (28, 128, 5)
    image = keras.Input((side, side, 1))
    x = Masked(width, 7, sees_own=False)(image)
    for _ in range(depth):
        y = layers.Conv2D(width, 1, activation="relu")(x)
        y = Masked(width // 2, 3, sees_own=True)(y)
        x = x + layers.Conv2D(width, 1, activation="relu")(y)
    model = keras.Model(image, layers.Conv2D(1, 1)(x))

    def loss(wanted: Any, logits: Any) -> Any:
        return tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(wanted, tf.float32), logits)

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        black = (random.random((size, side, side, 1)) < 0.5).astype(np.float32)
        return black, black

    return Network(model, prepared(keras.optimizers.Adam(1e-3), model.trainable_variables), loss, draw)


def wgangp(small: bool) -> Objective:
    """A critic whose slopes are held near one (Gulrajani et al., 2017)."""
    side, width = (16, 8) if small else (32, 64)
    x = image = keras.Input((side, side, 3))
    for wider in (1, 2, 4):
        x = layers.LeakyReLU(0.2)(layers.Conv2D(width * wider, 5, strides=2, padding="same")(x))
    critic = keras.Model(image, layers.Dense(1)(layers.Flatten()(x)))

    def loss(real: Any, fake: Any, shares: Any) -> Any:
        mixed = real + tf.cast(shares, real.dtype)[:, None, None, None] * (fake - real)
        with tf.GradientTape() as tape:
            tape.watch(mixed)
            verdict = critic(mixed, training=True)
        slopes = in_float32(tape.gradient(verdict, mixed))
        norms = tf.sqrt(tf.reduce_sum(slopes * slopes, (1, 2, 3)))
        bad, good = (tf.reduce_mean(in_float32(critic(images, training=True))) for images in (fake, real))
        return bad - good + 10 * tf.reduce_mean((norms - 1) ** 2)

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return *(normal(random, size, side, side, 3) for _ in range(2)), uniform(random, size)

    variables = critic.trainable_variables
    return Objective(variables, prepared(keras.optimizers.Adam(1e-3), variables), loss, draw)
