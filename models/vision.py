"""Networks of images as users of Keras write them: those of keras.applications, and a U-Net that learns noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from models.network import Network, with_loss_scaling
from models.unet import unet

APPLICATIONS = ("ResNet50", "MobileNetV3Large", "EfficientNetB0", "ConvNeXtTiny", "DenseNet121")
NAMES = (*APPLICATIONS, "UNet")


def build(name: str, size: int = 224, classes: int = 1000) -> Network:
    """A network with new weights, for images of size x size: one of NAMES, or another one of Keras' applications.

    Raises:
        ValueError: there is none of that name.
    """
    if name not in NAMES and not callable(getattr(keras.applications, name, None)):
        raise ValueError(f"no network {name!r}; there are {', '.join(NAMES)}")
    if name == "UNet":
        return network(unet(size, (32, 64, 128)), ((size, size, 3), ()), keras.losses.mean_squared_error)
    model = getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3), classes=classes)
    return network(model, ((size, size, 3),), keras.losses.sparse_categorical_crossentropy)


def network(model: keras.Model, inputs: tuple[tuple[int, ...], ...], loss: Callable[[Any, Any], Any]) -> Network:
    """A model of images, trained by gradient descent with momentum.

    Args:
        inputs: shapes of what it is given, without the batch.
    """

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        given = tuple(random.standard_normal((size, *shape)).astype(np.float32) for shape in inputs)
        shape = model.output_shape[1:]
        if len(shape) == 1:
            return (random.integers(0, shape[0], size), *given)
        return (random.standard_normal((size, *shape)).astype(np.float32), *given)

    optimizer = with_loss_scaling(keras.optimizers.SGD(0.01, momentum=0.9))
    optimizer.build(model.trainable_variables)
    return Network(model, optimizer, loss, draw)
