"""Fused batch norms between other ops, for their results and for their gradients; prints what comes out, as JSON:
name -> flat values. Calls each function often enough for the profitability check to run both forms."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import tensorflow as tf

CHANNELS, EPSILON = 8, 1e-3
EXACT = " in float32"
"""Of half types: the same values, computed in float32."""
SHAPES = {"NHWC": (4, 6, 5, CHANNELS), "NCHW": (4, CHANNELS, 6, 5)}
FORMATS = [("NHWC", "float32"), ("NHWC", "float16"), ("NHWC", "bfloat16"), ("NCHW", "float32")]


def normal(seed: int, shape: tuple[int, ...], dtype: str = "float32") -> tf.Tensor:
    return tf.cast(tf.random.stateless_normal(shape, seed=[7, seed]), dtype)


def norm(x: tf.Tensor, layout: str, training: bool, factor: float = 1.0) -> Any:
    """Its results; those that nothing but a gradient reads are not asked for."""
    statistics = normal(3, (CHANNELS,)), tf.abs(normal(4, (CHANNELS,))) + 0.5
    moving = statistics if not training or factor != 1.0 else ([], [])
    return tf.raw_ops.FusedBatchNormV3(
        x=x, scale=normal(1, (CHANNELS,)), offset=normal(2, (CHANNELS,)), mean=moving[0], variance=moving[1],
        epsilon=EPSILON, exponential_avg_factor=factor, data_format=layout, is_training=training, name="norm")[:3]


def forward(layout: str, training: bool, factor: float) -> Callable[[tf.Tensor], list[tf.Tensor]]:
    def function(x: tf.Tensor) -> list[tf.Tensor]:
        y, mean, variance = norm(tf.tanh(x), layout, training, factor)
        return [tf.sigmoid(y), mean, variance]

    return function


def gradient(layout: str, training: bool, pooled: bool) -> Callable[[tf.Tensor], list[tf.Tensor]]:
    """If `pooled`, the gradient is part of another region."""

    def function(x: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sigmoid(norm(tf.tanh(x), layout, training)[0])
            if pooled:
                y = tf.nn.avg_pool2d(y, 2, 2, "VALID")
            loss = tf.reduce_sum(tf.square(y) * tf.cast(tf.range(y.shape[-1]), y.dtype))
        return [loss, tape.gradient(loss, x)]

    return function


def flat(function: Any, x: tf.Tensor, calls: int) -> list[list[float]]:
    """What the last call gives."""
    for _ in range(calls):
        results = function(x)
    return [tf.reshape(tf.cast(r, tf.float32), [-1]).numpy().tolist() for r in results]


def main(calls: int) -> None:
    found: dict[str, list[list[float]]] = {}
    for layout, dtype in FORMATS:
        for training in (True, False):
            cases = {"forward": forward(layout, training, 1.0), "averaged": forward(layout, training, 0.25),
                     "gradient": gradient(layout, training, dtype == "float32" and layout == "NHWC")}  # fmt: skip
            for name, function in cases.items():
                case, x = f"{name} {layout} {dtype} training={training}", normal(5, SHAPES[layout], dtype)
                found[case] = flat(tf.function(function), x, calls)
                if dtype != "float32":
                    found[case + EXACT] = flat(tf.function(function), tf.cast(x, tf.float32), 1)
    empty = tf.function(forward("NHWC", True, 1.0), input_signature=[tf.TensorSpec([None, 6, 5, CHANNELS])])
    for rows in (3, 0, 3):
        found[f"rows={rows}"] = flat(empty, normal(6, (rows, 6, 5, CHANNELS)), 1)
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]))
