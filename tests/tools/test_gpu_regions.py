"""Steps of small networks of images, and of transformers, are one region each on an H200."""

from __future__ import annotations

from typing import Any

import keras
import pytest
import tensorflow as tf
from keras import layers

from models import language
from models.unet import unet
from models.vision import network as network_of
from tools.benchmark.gpu_regions import counted, regions_of


@pytest.fixture(autouse=True, params=["float32", "mixed_bfloat16"])
def policy(request: pytest.FixtureRequest) -> Any:
    """TensorFlow puts channels first for the first, and last for the second."""
    keras.mixed_precision.set_global_policy(request.param)
    yield
    keras.mixed_precision.set_global_policy("float32")


def convolutions() -> keras.Model:
    """What networks of images have between their convolutions."""
    x = inputs = keras.Input((32, 32, 3))
    x = layers.MaxPooling2D(3, 2, "same")(layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(8, 3, 2)(x))))
    y = layers.DepthwiseConv2D(3, padding="same")(layers.ZeroPadding2D(1)(x))
    y = layers.Activation("hard_swish")(layers.BatchNormalization()(y))
    scale = layers.Conv2D(8, 1, activation="sigmoid")(layers.GlobalAveragePooling2D(keepdims=True)(y))
    y = layers.Concatenate()([y * scale, y])
    y = layers.UpSampling2D()(layers.AveragePooling2D(2)(layers.Conv2DTranspose(8, 3, 2, "same")(y)))
    return keras.Model(inputs, layers.Dense(10, dtype="float32")(layers.GlobalAveragePooling2D()(y)))


NETWORKS = {"convolutions": (convolutions, ((32, 32, 3),)), "unet": (lambda: unet(16, (8, 16)), ((16, 16, 3), ()))}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("mode", ["train", "infer"])
def test_one_region(name: str, mode: str) -> None:
    make, inputs = NETWORKS[name]
    model = make()
    network = network_of(model, inputs, keras.losses.mean_squared_error)
    given = [tf.TensorSpec((4, *shape), tf.float32) for shape in inputs]
    if mode == "train":
        given.insert(0, tf.TensorSpec((4, *model.output_shape[1:]), tf.float32))
    step = tf.function(network.train if mode == "train" else network.infer, autograph=False)
    count = counted(regions_of(step.get_concrete_function(*given)))
    assert (count.regions, dict(count.left_out)) == (1, {})


@pytest.mark.parametrize("name", language.NAMES)
def test_a_train_step_of_a_transformer(name: str) -> None:
    network = language.build(name, language.SMALL[name])
    given = [tf.TensorSpec((4, *x.shape[1:]), x.dtype) for x in network.batch(1)]
    count = counted(regions_of(tf.function(network.train, autograph=False).get_concrete_function(*given)))
    assert (count.regions, dict(count.left_out)) == (1, {})
