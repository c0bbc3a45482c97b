"""Depthwise convolutions with what is around them, and a MobileNet's block with its train step. Prints results by case
as JSON.

Usage: depthwise.py CALLS
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

RNG = np.random.default_rng(0)
IMAGES = (2, 3, 2, 1)
"""How many there are, call by call."""


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def layer(channels: int, extent: int, strides: int, padding: Any, dtype: Any = np.float32, multiplier: int = 1
          ) -> Callable[[Any], Any]:
    """relu6(scale * convolution(relu6(x)) + shift), which is large enough for a region."""
    w = tf.constant(numbers(extent, extent, channels, multiplier, dtype=dtype))
    scale, shift = (tf.constant(numbers(channels * multiplier, dtype=dtype)) for _ in range(2))

    def run(x: Any) -> Any:
        y = tf.nn.depthwise_conv2d(tf.nn.relu6(x), w, [1, strides, strides, 1], padding)
        return tf.nn.relu6(y * scale + shift)

    return run


def cases() -> Iterator[tuple[str, Callable[[Any], Any], tuple[int, ...], Any]]:
    for extent, strides, size, channels in ((3, 1, 14, 32), (3, 2, 15, 24), (5, 1, 12, 16), (5, 2, 9, 40),
                                            (7, 1, 7, 48)):
        for padding in ("SAME", "VALID"):
            yield (f"{extent} by {strides} {padding}", layer(channels, extent, strides, padding),
                   (size, size + 2, channels), np.float32)
    yield ("explicit", layer(16, 3, 1, [[0, 0], [2, 1], [0, 3], [0, 0]]), (9, 8, 16), np.float32)
    yield "float64", layer(16, 3, 1, "SAME", np.float64), (9, 8, 16), np.float64
    yield "two filters a channel", layer(16, 3, 1, "SAME", multiplier=2), (9, 8, 16), np.float32


def block() -> Any:
    """MobileNetV2's inverted residual."""
    layers = tf.keras.layers
    x = inputs = layers.Input((16, 16, 24))
    for make in (lambda: layers.Conv2D(96, 1, use_bias=False),
                 lambda: layers.DepthwiseConv2D(3, padding="same", use_bias=False)):
        x = layers.ReLU(6.0)(layers.BatchNormalization()(make()(x)))
    x = layers.BatchNormalization()(layers.Conv2D(24, 1, use_bias=False)(x))
    return tf.keras.Model(inputs, layers.Add()([inputs, x]))


def main(calls: int) -> None:
    found: dict[str, Any] = {}
    for name, run, shape, dtype in cases():
        function = tf.function(run, input_signature=[tf.TensorSpec((None, *shape), dtype)])
        given = [tf.constant(numbers(count, *shape, dtype=dtype)) for count in IMAGES]
        found[name] = [function(x).numpy().ravel().tolist() for x in given * (1 + calls // len(IMAGES))][-len(IMAGES):]
    tf.keras.utils.set_random_seed(0)
    model = block()
    infer = tf.function(lambda x: model(x, training=False))
    x = tf.constant(numbers(2, 16, 16, 24))
    found["block"] = [[infer(x).numpy().ravel().tolist() for _ in range(max(calls, 1))][-1]]

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True)))
        gradients = tape.gradient(loss, model.trainable_variables)
        for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
            variable.assign_sub(0.01 * gradient)
        return loss

    found["train"] = [[float(step()) for _ in range(8)]]
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]))
