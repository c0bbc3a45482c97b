"""Networks of images as users of Keras write them: those of keras.applications, and a U-Net that learns noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from models.unet import unet

APPLICATIONS = ("ResNet50", "MobileNetV3Large", "EfficientNetB0", "ConvNeXtTiny", "DenseNet121")
NAMES = (*APPLICATIONS, "UNet")


@dataclass(frozen=True)
class Vision:
    """A network with its optimizer.

    Attributes:
        inputs: shapes of what it is given, without the batch.
        loss: of what it is asked for and what it answers.
    """

    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    inputs: tuple[tuple[int, ...], ...]
    loss: Callable[[Any, Any], Any]

    def train(self, wanted: Any, *given: Any) -> Any:
        """One step; the loss before it."""
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.loss(wanted, tf.cast(self._call(given, True), tf.float32)))
        weights = self.model.trainable_variables
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        return loss

    def infer(self, *given: Any) -> Any:
        return self._call(given, False)

    def batch(self, size: int, seed: int = 0) -> tuple[Any, ...]:
        """What is wanted, and what is given, of so many random examples."""
        random = np.random.default_rng(seed)
        given = tuple(random.standard_normal((size, *shape)).astype(np.float32) for shape in self.inputs)
        shape = self.model.output_shape[1:]
        if len(shape) == 1:
            return (random.integers(0, shape[0], size), *given)
        return (random.standard_normal((size, *shape)).astype(np.float32), *given)

    def _call(self, given: tuple[Any, ...], training: bool) -> Any:
        return self.model(list(given) if len(given) > 1 else given[0], training=training)


def build(name: str, size: int = 224, classes: int = 1000) -> Vision:
    """A network with new weights, for images of size x size.

    Raises:
        ValueError: there is none of that name.
    """
    if name not in NAMES:
        raise ValueError(f"no network {name!r}; there are {', '.join(NAMES)}")
    if name == "UNet":
        model = unet(size, (32, 64, 128))
        return _ready(model, ((size, size, 3), ()), keras.losses.mean_squared_error)
    model = getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3), classes=classes)
    return _ready(model, ((size, size, 3),), keras.losses.sparse_categorical_crossentropy)


def _ready(model: keras.Model, inputs: tuple[tuple[int, ...], ...], loss: Callable[[Any, Any], Any]) -> Vision:
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    optimizer.build(model.trainable_variables)
    return Vision(model, optimizer, inputs, loss)
