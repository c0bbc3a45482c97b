"""Softmax and the losses made of it (softmax_op_functor.h, xent_op.h, sparse_xent_op.h).

Half types compute in float32: sums of exponentials are their kernels' accumulators on a GPU too.
"""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.legalize.reductions import accumulate
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.types import Dim, broadcast_shapes

_I32_MAX = (1 << 31) - 1


@dataclass(frozen=True)
class _Exponentials:
    """Of logits [..., classes]: their maximum [..., 1], logits - maximum, exp of that, and its sum [..., 1]."""

    maximum: Node
    shifted: Node
    exp: Node
    total: Node


def _exponentials(b: Builder, logits: Node) -> _Exponentials:
    if logits.type.rank == 0:
        raise UnsupportedError("softmax of a scalar")
    maximum = b.reduce(K.MAX, logits, [-1], keepdims=True)
    shifted = b.sub(logits, maximum)
    exp = b.exp(shifted)
    return _Exponentials(maximum, shifted, exp, b.sum(exp, [-1], keepdims=True))


@legalize("Softmax")
def softmax(ctx: NodeContext) -> Node:
    b, x = ctx.b, ctx.value(0)
    e = _exponentials(b, accumulate(b, x))
    return b.cast(b.div(e.exp, e.total), x.type.dtype)


@legalize("LogSoftmax")
def log_softmax(ctx: NodeContext) -> Node:
    b, x = ctx.b, ctx.value(0)
    e = _exponentials(b, accumulate(b, x))
    return b.cast(b.sub(e.shifted, b.op(K.LOG, e.total)), x.type.dtype)


@legalize("SoftmaxCrossEntropyWithLogits")
def softmax_cross_entropy(ctx: NodeContext) -> list[Node]:
    """loss = sum(labels (log(total) - shifted)); backprop = softmax - labels."""
    b, features, labels = ctx.b, ctx.value(0), ctx.value(1)
    shape = broadcast_shapes([features.type.shape, labels.type.shape])
    e = _exponentials(b, accumulate(b, b.broadcast(features, shape)))
    wanted = accumulate(b, b.broadcast(labels, shape))
    loss = b.sum(b.mul(wanted, b.sub(b.op(K.LOG, e.total), e.shifted)), [-1])
    backprop = b.sub(b.div(e.exp, e.total), wanted)
    return [b.cast(loss, features.type.dtype), b.cast(backprop, features.type.dtype)]


def _of_labels(ctx: NodeContext, features: Node, labels: Node) -> Node:
    """The element of each row whose class is wanted; any, where no class is. Nothing is summed over a row for it."""
    b, classes = ctx.b, features.type.shape[-1]
    every = ctx.product(features.type.shape, "logits")
    first = b.mul(b.positions(labels.type.shape, DType.I64), b.extent((classes,), DType.I64))
    return b.op(K.GATHER, b.reshape(features, (every,)), b.add(first, b.cast(labels, DType.I64)))


def _hits(b: Builder, labels: Node, classes: Dim) -> Node:
    """Whether a class is the wanted one [..., classes], by integers of 32 bits where these count classes. A label that
    they do not hold is one that there is no class for: its row is not used."""
    labels = b.reshape(labels, (*labels.type.shape, 1))
    if isinstance(classes, int) and classes <= _I32_MAX:
        labels = b.cast(labels, DType.I32)
    return b.op(K.EQUAL, labels, b.iota((1, classes), 1, labels.type.dtype))


@legalize("SparseSoftmaxCrossEntropyWithLogits")
def sparse_softmax_cross_entropy(ctx: NodeContext) -> list[Node]:
    """As above for one class a row. A label outside is an error on a CPU; on a GPU it gives NaN."""
    b, features, labels = ctx.b, ctx.value(0), ctx.value(1)
    labels = ctx.fitted(labels, features.type.shape[:-1])
    classes = features.type.shape[-1]
    if classes == 0:
        raise UnsupportedError(f"{ctx.op} of no classes must raise at run time")
    if not ctx.on_gpu:
        labels = b.op(K.GATHER, b.iota((classes,), 0, labels.type.dtype), labels)  # itself, and in range
    e = _exponentials(b, accumulate(b, features))
    dtype = e.exp.type.dtype
    wanted = accumulate(b, b.reshape(_of_labels(ctx, features, labels), (*labels.type.shape, 1)))
    loss = b.reshape(b.sub(b.op(K.LOG, e.total), b.sub(wanted, e.maximum)), labels.type.shape)
    hit = _hits(b, labels, classes)
    backprop = b.sub(b.div(e.exp, e.total), b.cast(hit, dtype))
    if ctx.on_gpu:
        inside = b.op(K.AND, b.op(K.GREATER_EQUAL, labels, b.scalar_like(0, labels)),
                      b.op(K.LESS, labels, b.extent((classes,), labels.type.dtype)))
        nan = b.constant(float("nan"), dtype)
        loss = b.select(inside, loss, nan)
        backprop = b.select(b.reshape(inside, (*labels.type.shape, 1)), backprop, nan)
    return [b.cast(loss, features.type.dtype), b.cast(backprop, features.type.dtype)]
