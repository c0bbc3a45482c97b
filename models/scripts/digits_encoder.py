"""A transformer encoder that classifies scikit-learn's handwritten digits, trained with Keras' `fit`.

The 64 pixels of an image are a sequence of 64 tokens.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import keras
import numpy as np
from sklearn.datasets import load_digits
from step_log import StepLog, median_ms, parser

PIXELS = 64
CLASSES = 10
TRAINING_IMAGES = 1536


class Positions(keras.layers.Layer):
    """Adds a learnt vector per position."""

    def build(self, shape: tuple[int | None, ...]) -> None:
        self.table = self.add_weight(shape=shape[1:], initializer=keras.initializers.RandomNormal(stddev=0.2))

    def call(self, x: Any) -> Any:
        return x + self.table


def encoder_block(x: Any, width: int, heads: int, dropout: float) -> Any:
    """Self-attention and a GELU layer, each with its residual and layer normalisation."""
    attended = keras.layers.MultiHeadAttention(heads, width // heads, dropout=dropout)(x, x)
    x = keras.layers.LayerNormalization()(x + keras.layers.Dropout(dropout)(attended))
    hidden = keras.layers.Dense(4 * width, activation="gelu")(x)
    hidden = keras.layers.Dense(width)(hidden)
    return keras.layers.LayerNormalization()(x + keras.layers.Dropout(dropout)(hidden))


def build_model(width: int, layers: int, heads: int, dropout: float) -> keras.Model:
    """Images as [batch, 64, 1] to logits of the ten classes."""
    image = keras.Input((PIXELS, 1))
    x = Positions()(keras.layers.Dense(width)(image))
    for _ in range(layers):
        x = encoder_block(x, width, heads, dropout)
    return keras.Model(image, keras.layers.Dense(CLASSES)(keras.layers.GlobalAveragePooling1D()(x)))


def compile_model(model: keras.Model, **options: Any) -> keras.Model:
    """Adam and cross-entropy; `options` go to Keras' compile."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(2e-3), loss, metrics=["accuracy"], **options)
    return model


def load_images() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """(images, labels) for training and for testing; images as float32 in [0, 1]."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32).reshape(-1, PIXELS, 1)
    labels = labels.astype(np.int32)
    return (images[:TRAINING_IMAGES], labels[:TRAINING_IMAGES]), (images[TRAINING_IMAGES:], labels[TRAINING_IMAGES:])


class LogSteps(keras.callbacks.Callback):
    """Times and logs every batch, and ends training after `steps`."""

    def __init__(self, log: StepLog, steps: int) -> None:
        super().__init__()
        self._log, self._steps = log, steps

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.model.reset_metrics()  # the loss of this batch, not a mean over the epoch
        self._log.begin()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._log.end(logs["loss"])
        if len(self._log.losses) == self._steps:
            self.model.stop_training = True


def time_inference(model: keras.Model, images: np.ndarray, runs: int = 30) -> float:
    """Median milliseconds of one batch."""
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        model.predict_on_batch(images)
        seconds.append(time.perf_counter() - start)
    return median_ms(seconds)


def arguments() -> argparse.Namespace:
    flags = parser(__doc__, batch=64)
    flags.add_argument("--width", type=int, default=64)
    flags.add_argument("--layers", type=int, default=2)
    flags.add_argument("--heads", type=int, default=4)
    flags.add_argument("--dropout", type=float, default=0.1)
    return flags.parse_args()


def main() -> None:
    args = arguments()
    keras.utils.set_random_seed(args.seed)
    (images, labels), (test_images, test_labels) = load_images()
    model = compile_model(build_model(args.width, args.layers, args.heads, args.dropout))
    log = StepLog()
    epochs = -(-args.steps * args.batch // len(images))
    model.fit(images, labels, args.batch, epochs, verbose=0, shuffle=False, callbacks=[LogSteps(log, args.steps)])
    loss, accuracy = model.evaluate(test_images, test_labels, args.batch, verbose=0)
    log.note("test_loss", loss)
    log.note("test_accuracy", accuracy)
    log.note("mean_logit", float(np.mean(model.predict(test_images, args.batch, verbose=0))))
    log.note("predict_ms", round(time_inference(model, test_images[: args.batch]), 3))
    log.finish(args.out)


if __name__ == "__main__":
    main()
