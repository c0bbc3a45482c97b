"""Classes drawn by their logits: the words that a decoder draws, bit for bit those of TensorFlow's kernels
(core/kernels/multinomial_op.cc for CPUs, multinomial_op_gpu.cu.cc), which go different ways."""

from __future__ import annotations

import math

import ml_dtypes

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.legalize.random import Stream, scrambled, unit_interval
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K

_ONE_SHARD = 20_000
"""Cycles, by the kernel's own estimate, up to which it draws in one thread for sure; several skip other numbers."""


@legalize("StatelessMultinomial")
def stateless_multinomial(ctx: NodeContext) -> Node:
    """Logits [batch, classes] to classes [batch, samples]."""
    logits, samples = ctx.value(0), ctx.scalar(1, "the number of samples")
    if logits.type.rank != 2 or ctx.value(2).type.shape != (2,):
        raise UnsupportedError(f"{ctx.op} of {logits.type}: an error at run time")
    batch, classes = logits.type.shape
    if not isinstance(batch, int) or not isinstance(classes, int) or classes == 0 or samples <= 0:
        raise UnsupportedError(f"{ctx.op} of {samples} of {logits.type}")
    stream = scrambled(ctx.b, ctx.value(2))
    if ctx.on_gpu:
        return _by_noise(ctx.b, logits, samples, stream, ctx.attrs.dtype("output_dtype"))
    if batch > 1 and batch * 50 * (samples * math.log2(classes) + classes) >= _ONE_SHARD:
        raise UnsupportedError(f"{ctx.op} of so many that TensorFlow's threads share the numbers")
    return _by_sums(ctx.b, logits, samples, stream, ctx.attrs.dtype("output_dtype"))


def _by_noise(b: Builder, logits: Node, samples: int, stream: Stream, dtype: DType) -> Node:
    """The class of the largest logit with noise, the last one of several; the first if none is the largest (NaN)."""
    batch, classes = logits.type.dims
    noise = unit_interval(b, stream.words(b, b.positions((batch, samples, classes), DType.I64)), DType.F32)
    surprise = b.neg(b.op(K.LOG, b.add(noise, b.constant(2e-30, DType.F32))))
    scores = b.sub(b.reshape(b.cast(logits, DType.F32), (batch, 1, classes)), b.op(K.LOG, surprise))
    is_best = b.op(K.EQUAL, scores, b.reduce(K.MAX, scores, [2], keepdims=True))
    number = b.iota((1, 1, classes), 2, dtype)
    return b.reduce(K.MAX, b.select(is_best, number, b.scalar_like(0, number)), [2])


def _by_sums(b: Builder, logits: Node, samples: int, stream: Stream, dtype: DType) -> Node:
    """How many sums of probabilities, in float64, are at most a random part of the whole sum. What is not finite has
    none."""
    batch, classes = logits.type.dims
    wide = b.cast(logits, DType.F64)
    finite = b.op(K.IS_FINITE, wide)
    most = b.reduce(K.MAX, b.select(finite, wide, b.scalar_like(_lowest(logits.type.dtype), wide)), [1], keepdims=True)
    zero = b.scalar_like(0, wide)
    sums = b.cumsum(b.select(finite, b.exp(b.sub(wide, most)), zero), exclusive=False, reverse=False)
    whole = b.slice(sums, [0, classes - 1], [1, 1], (batch, 1))
    first = b.mul(b.positions((batch, samples), DType.I64), b.constant(2, DType.I64))
    high, low = (b.cast(stream.words(b, at), DType.I64) for at in (first, b.add(first, b.constant(1, DType.I64))))
    mantissa = b.add(b.mul(b.op(K.AND, high, b.constant((1 << 20) - 1, DType.I64)), b.constant(1 << 32, DType.I64)),
                     b.op(K.AND, low, b.constant((1 << 32) - 1, DType.I64)))
    part = b.mul(b.mul(b.cast(mantissa, DType.F64), b.constant(2.0**-52, DType.F64)), whole)
    before = b.op(K.LESS_EQUAL, b.reshape(sums, (batch, 1, classes)), b.reshape(part, (batch, samples, 1)))
    one = b.constant(1, dtype)
    return b.reduce(K.SUM, b.select(before, one, b.scalar_like(0, one)), [2])


def _lowest(dtype: DType) -> float:
    return float(ml_dtypes.finfo(dtype.numpy).min)  # type: ignore[no-untyped-call]
