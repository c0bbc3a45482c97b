"""What `region_benchmark.py` times: dense models in plain TensorFlow, at inference and in train steps with Adam.

A case is built for "tensorflow", "xla" or "tf_stitch"; only XLA needs to be asked for in code. "call" is a function
that is called with the same arguments and variables and does nothing: what all of them cost on the host.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

Forward = Callable[[Any], Any]
SEED = 1


@dataclass(frozen=True)
class Workload:
    """A model at one batch size.

    Attributes:
        make: builds the model: its variables, and its forward function.
        shape: of the input.
        result: shape of the output, and of the target of a train step; None: that of the input.
    """

    make: Callable[[], tuple[list[Any], Forward]]
    shape: tuple[int, ...]
    modes: tuple[str, ...] = ("infer", "train")
    result: tuple[int, ...] | None = None


def encoder(layers: int, width: int, heads: int) -> Callable[[], tuple[list[Any], Forward]]:
    """A transformer encoder of post-norm layers with a gelu network of 4 * width, no dropout."""

    def make() -> tuple[list[Any], Forward]:
        stack = [EncoderLayer(width, heads) for _ in range(layers)]

        def forward(x: Any) -> Any:
            for layer in stack:
                x = layer(x)
            return x

        return [v for layer in stack for v in layer.variables], forward

    return make


class EncoderLayer:
    """Self-attention and a two-layer network, each with a residual and a layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        self._heads = heads
        self._query, self._key, self._value, self._out = (dense(width, width) for _ in range(4))
        self._up, self._down = dense(width, 4 * width), dense(4 * width, width)
        self._norms = [(tf.Variable(tf.ones([width])), tf.Variable(tf.zeros([width]))) for _ in range(2)]
        pairs = [self._query, self._key, self._value, self._out, self._up, self._down, *self._norms]
        self.variables = [v for pair in pairs for v in pair]

    def __call__(self, x: Any) -> Any:
        batch, length, width = tf.shape(x)[0], tf.shape(x)[1], x.shape[2]
        size = width // self._heads

        def split(y: Any) -> Any:
            return tf.transpose(tf.reshape(y, [batch, length, self._heads, size]), [0, 2, 1, 3])

        flat = tf.reshape(x, [-1, width])
        query, key, value = (split(linear(flat, w)) for w in (self._query, self._key, self._value))
        weights = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) * size ** -0.5)
        mixed = tf.reshape(tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3]), [-1, width])
        flat = layer_norm(flat + linear(mixed, self._out), self._norms[0])
        flat = layer_norm(flat + linear(tf.nn.gelu(linear(flat, self._up)), self._down), self._norms[1])
        return tf.reshape(flat, [batch, length, width])


def mlp(*widths: int) -> Callable[[], tuple[list[Any], Forward]]:
    """Dense layers from each width to the next, with relu between them."""

    def make() -> tuple[list[Any], Forward]:
        stack = [dense(*pair) for pair in itertools.pairwise(widths)]

        def forward(x: Any) -> Any:
            for weights in stack[:-1]:
                x = tf.nn.relu(linear(x, weights))
            return linear(x, stack[-1])

        return [v for pair in stack for v in pair], forward

    return make


def dense(inputs: int, outputs: int) -> tuple[Any, Any]:
    kernel = np.random.default_rng([SEED, inputs, outputs]).standard_normal((inputs, outputs)) * inputs ** -0.5
    return tf.Variable(kernel.astype(np.float32)), tf.Variable(tf.zeros([outputs]))


def linear(x: Any, weights: tuple[Any, Any]) -> Any:
    return tf.matmul(x, weights[0]) + weights[1]


def layer_norm(x: Any, weights: tuple[Any, Any]) -> Any:
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-5) * weights[0] + weights[1]


WORKLOADS = {
    "encoder_12x768_batch1_length128": Workload(encoder(12, 768, 12), (1, 128, 768)),
    "encoder_12x768_batch32_length128": Workload(encoder(12, 768, 12), (32, 128, 768)),
    "encoder_6x512_batch8_length64": Workload(encoder(6, 512, 8), (8, 64, 512)),
    "mlp_4x256_batch256": Workload(mlp(*[256] * 5), (256, 256), ("train",)),
    "encoder_4x256_batch16_length64": Workload(encoder(4, 256, 4), (16, 64, 256)),
    "table_3x256_batch256": Workload(mlp(40, 256, 256, 256, 2), (256, 40), result=(256, 2)),
    "tiny": Workload(encoder(2, 32, 2), (2, 8, 32)),
}


def make_step(workload: str, mode: str, backend: str) -> Callable[[], Any]:
    """A function that enqueues one call and returns a tensor of its result (the loss of a train step)."""
    case = WORKLOADS[workload]
    variables, forward = case.make()
    random = np.random.default_rng(SEED)
    shapes = case.shape, case.result or case.shape
    x, target = (tf.constant(random.standard_normal(shape), tf.float32) for shape in shapes)
    jit = True if backend == "xla" else None
    arguments = (x,) if mode == "infer" else (x, target)
    step = tf.function(forward if mode == "infer" else adam_step(variables, forward), jit_compile=jit)
    if backend == "call":
        step = empty(step.get_concrete_function(*arguments).captured_inputs)
    return lambda: step(*arguments)


def empty(captured: Sequence[Any]) -> Any:
    """A function that captures these tensors and returns its first argument."""

    @tf.function
    def nothing(*arguments: Any) -> Any:
        for tensor in captured:
            tf.compat.v1.get_default_graph().capture(tensor)
        return tf.identity(arguments[0])

    return nothing


def adam_step(variables: Sequence[Any], forward: Forward, rate: float = 1e-4) -> Callable[[Any, Any], Any]:
    """A train step on the mean squared error, its Adam written in plain ops, as that of Keras 3 is."""
    first, second = ([tf.Variable(tf.zeros_like(v)) for v in variables] for _ in range(2))
    count = tf.Variable(0.0)

    def step(x: Any, target: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(forward(x) - target))
        gradients = tape.gradient(loss, variables)
        count.assign_add(1.0)
        scale = rate * tf.sqrt(1 - 0.999 ** count) / (1 - 0.9 ** count)
        for variable, gradient, m, v in zip(variables, gradients, first, second, strict=True):
            m.assign_add((gradient - m) * 0.1)
            v.assign_add((tf.square(gradient) - v) * 0.001)
            variable.assign_sub(scale * m / (tf.sqrt(v) + 1e-7))
        return loss

    return step
