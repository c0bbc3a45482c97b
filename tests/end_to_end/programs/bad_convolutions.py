"""Convolutions of what there is nothing to convolve. Prints, for each case and call, a result's shape and values or the
error, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

RNG = np.random.default_rng(0)
CALLS = 3


def images(*shape: int) -> tf.Tensor:
    return tf.constant(RNG.standard_normal(shape).astype(np.float32))


def spec(*shape: int | None) -> tf.TensorSpec:
    return tf.TensorSpec(shape)


def conv(x: Any, w: Any, padding: str = "VALID") -> Any:
    return tf.nn.conv2d(x, w, 1, padding)


def depthwise(x: Any, w: Any, padding: str = "VALID") -> Any:
    return tf.nn.depthwise_conv2d(x, w, [1] * 4, padding)


def layer(op: Callable[..., Any], padding: str = "VALID") -> Callable[..., Any]:
    """With enough around it for a region."""
    return lambda x, w: tf.nn.relu6(op(tf.nn.relu6(x), w, padding) * 2.0 + 0.5)


def gradients(op: Callable[..., Any], padding: str = "VALID") -> Callable[..., Any]:
    def run(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch((x, w))
            y = layer(op, padding)(x, w)
            loss = tf.reduce_sum(tf.sin(y) * y)
        return tape.gradient(loss, (x, w))

    return run


def pooled(x: Any, w: Any) -> Any:
    y = tf.nn.relu6(x * w)
    return tf.nn.max_pool2d(y, 3, 2, "VALID") + tf.nn.avg_pool2d(y, 3, 2, "VALID") * 0.5


ANY_SIZE, FILTERS, EACH = spec(None, None, None, 8), spec(3, 3, 8, 4), spec(3, 3, 8, 1)
ANY_BATCH = spec(None, 9, 9, 8)
CASES: dict[str, tuple[Callable[..., Any], tuple[tf.TensorSpec, tf.TensorSpec], list[tuple[Any, Any]]]] = {}
for name, op, filters in (("convolution", conv, FILTERS), ("depthwise", depthwise, EACH)):
    w = images(*filters.shape)
    empty = images(3, 3, 0, 4 if op is conv else 1)
    CASES |= {
        f"{name}: larger than its image": (layer(op), (spec(2, 2, 2, 8), filters), [(images(2, 2, 2, 8), w)]),
        f"{name}: larger than an image that comes": (
            layer(op), (ANY_SIZE, filters), [(images(2, 9, 9, 8), w), (images(2, 2, 2, 8), w)]),
        f"{name}: larger than a padded image": (
            layer(op, "SAME"), (spec(2, 2, 2, 8), filters), [(images(2, 2, 2, 8), w)]),
        f"{name}: no images": (layer(op), (ANY_BATCH, filters), [(images(2, 9, 9, 8), w), (images(0, 9, 9, 8), w)]),
        f"{name}: no images, gradients": (
            gradients(op), (ANY_BATCH, filters), [(images(2, 9, 9, 8), w), (images(0, 9, 9, 8), w)]),
        f"{name}: never any images": (layer(op), (spec(0, 9, 9, 8), filters), [(images(0, 9, 9, 8), w)]),
        f"{name}: no channels": (layer(op), (spec(2, 9, 9, 0), spec(*empty.shape)), [(images(2, 9, 9, 0), empty)]),
        f"{name}: no channels come": (
            layer(op), (spec(2, 9, 9, None), spec(3, 3, None, empty.shape[3])),
            [(images(2, 9, 9, 8), w), (images(2, 9, 9, 0), empty)]),
        f"{name}: other channels": (
            layer(op), (spec(2, 9, 9, None), filters), [(images(2, 9, 9, 8), w), (images(2, 9, 9, 7), w)]),
    }
CASES |= {
    "convolution: no filters": (layer(conv), (ANY_BATCH, spec(3, 3, 8, 0)), [(images(2, 9, 9, 8), images(3, 3, 8, 0))]),
    "pooling: larger than an image that comes": (
        pooled, (ANY_SIZE, spec(8)), [(images(2, 9, 9, 8), images(8)), (images(2, 2, 2, 8), images(8))]),
    "pooling: no images": (
        pooled, (ANY_BATCH, spec(8)), [(images(2, 9, 9, 8), images(8)), (images(0, 9, 9, 8), images(8))]),
}


def said(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        found = tf.nest.flatten(function(*arguments))
    except (tf.errors.OpError, ValueError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return [type(error).__name__, *lines[-3:]]
    return [[list(value.shape), value.numpy().ravel().tolist()] for value in found]


print(json.dumps({name: [said(function, *given) for given in calls for _ in range(CALLS)]
                  for name, (run, specs, calls) in CASES.items()
                  for function in [tf.function(run, input_signature=specs)]}))
