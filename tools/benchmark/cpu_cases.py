"""Memory-intensive subgraphs as TensorFlow programs, by the strongest op that TensorFlow has for each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tools.benchmark.subgraphs import ADAM_EPSILON, BETA_1, BETA_2, EPSILON, LEARNING_RATE

Call = Callable[[], Any]
F32 = 4


@dataclass(frozen=True)
class CpuCase:
    """A program over float32 matrices.

    Attributes:
        build: gets TensorFlow, rows, columns and whether XLA compiles it; the result runs it once and gives outputs.
        matrices: how often a matrix of that size goes through memory at least.
    """

    name: str
    rows: int
    columns: int
    build: Callable[[Any, int, int, bool], Call]
    matrices: int

    @property
    def floor_bytes(self) -> int:
        return self.matrices * self.rows * self.columns * F32


def _inputs(tf: Any, *shapes: tuple[int, ...]) -> list[Any]:
    return [tf.random.stateless_normal(shape, seed=[1, i]) for i, shape in enumerate(shapes)]


def negation(tf: Any, rows: int, columns: int, xla: bool) -> Call:
    run = tf.function(tf.negative, jit_compile=xla)
    [x] = _inputs(tf, (rows, columns))
    return lambda: [run(x)]


def layernorm(tf: Any, rows: int, columns: int, xla: bool) -> Call:
    @tf.function(jit_compile=xla)
    def run(x: Any, gamma: Any, beta: Any) -> Any:
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, EPSILON)

    operands = _inputs(tf, (rows, columns), (columns,), (columns,))
    return lambda: [run(*operands)]


def softmax(tf: Any, rows: int, columns: int, xla: bool) -> Call:
    run = tf.function(tf.nn.softmax, jit_compile=xla)
    [x] = _inputs(tf, (rows, columns))
    return lambda: [run(x)]


def bias_gelu(tf: Any, rows: int, columns: int, xla: bool) -> Call:
    run = tf.function(lambda x, bias: tf.nn.gelu(x + bias), jit_compile=xla)
    operands = _inputs(tf, (rows, columns), (columns,))
    return lambda: [run(*operands)]


def adam(tf: Any, rows: int, columns: int, xla: bool) -> Call:
    values = _inputs(tf, *[(rows, columns)] * 4)
    weight, first, second = (tf.Variable(tf.abs(v)) for v in values[:3])

    @tf.function(jit_compile=xla)
    def run(gradient: Any) -> Any:
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle, m=first.handle, v=second.handle, beta1_power=BETA_1, beta2_power=BETA_2,
            lr=LEARNING_RATE * math.sqrt(1 - BETA_2) / (1 - BETA_1), beta1=BETA_1, beta2=BETA_2, epsilon=ADAM_EPSILON,
            grad=gradient)  # fmt: skip

    def call() -> Any:
        run(values[3])
        return [weight, first, second]

    return call


def batchnorm_training(tf: Any, rows: int, columns: int, xla: bool) -> Call:
    @tf.function(jit_compile=xla)
    def run(x: Any, gamma: Any, beta: Any) -> Any:
        y = tf.raw_ops.FusedBatchNormV3(x=x, scale=gamma, offset=beta, mean=[], variance=[], epsilon=EPSILON)
        return y.y, y.batch_mean, y.batch_variance

    side = math.isqrt(rows)
    operands = _inputs(tf, (rows // side, side, 1, columns), (columns,), (columns,))
    return lambda: list(run(*operands))


def cross_entropy(tf: Any, rows: int, columns: int, xla: bool) -> Call:
    @tf.function(jit_compile=xla)
    def run(logits: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(logits)
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        return loss, tape.gradient(loss, logits)

    [logits] = _inputs(tf, (rows, columns))
    labels = tf.random.stateless_uniform((rows,), seed=[1, 9], maxval=columns, dtype=tf.int32)
    return lambda: list(run(logits, labels))


CPU_CASES = (
    CpuCase("a call: negation 1x8", 1, 8, negation, 2),
    CpuCase("layernorm 4096x1024", 4096, 1024, layernorm, 2),
    CpuCase("layernorm 512x768", 512, 768, layernorm, 2),
    CpuCase("softmax 4096x1024", 4096, 1024, softmax, 2),
    CpuCase("softmax 3072x128", 3072, 128, softmax, 2),
    CpuCase("bias gelu 4096x3072", 4096, 3072, bias_gelu, 2),
    CpuCase("bias gelu 512x3072", 512, 3072, bias_gelu, 2),
    CpuCase("adam 10000000", 1, 10_000_000, adam, 7),
    CpuCase("adam 589824", 768, 768, adam, 7),
    CpuCase("batchnorm training 65536x64", 65536, 64, batchnorm_training, 3),
    CpuCase("batchnorm training 4096x256", 4096, 256, batchnorm_training, 3),
    CpuCase("cross-entropy forward backward 1024x8000", 1024, 8000, cross_entropy, 2),
    CpuCase("cross-entropy forward backward 256x1000", 256, 1000, cross_entropy, 2),
)
"""What a call takes that computes next to nothing; sizes beyond the cache, and within."""
