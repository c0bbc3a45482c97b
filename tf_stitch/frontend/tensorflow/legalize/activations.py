"""Activations and their gradients (relu_op_functor.h, softplus_op.h, softsign_op.h).

Gradients of the relu family multiply by 0 or 1, as TensorFlow's CPU kernels do: an infinite gradient of a
closed unit is NaN.
"""

from __future__ import annotations

import math

import ml_dtypes

from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K

_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_SCALE_ALPHA = 1.7580993408473768599402175208123


def _positive(ctx: NodeContext, x: Node) -> Node:
    return ctx.b.op(K.GREATER, x, ctx.b.scalar_like(0, x))


def _negative(ctx: NodeContext, x: Node) -> Node:
    return ctx.b.op(K.LESS, x, ctx.b.scalar_like(0, x))


@legalize("Relu")
def relu(ctx: NodeContext) -> Node:
    x = ctx.value(0)
    return ctx.b.maximum(x, ctx.b.scalar_like(0, x))


@legalize("ReluGrad")
def relu_grad(ctx: NodeContext) -> Node:
    dy, x = ctx.pair()
    return ctx.b.mul(dy, ctx.b.cast(_positive(ctx, x), dy.type.dtype))


@legalize("Relu6")
def relu6(ctx: NodeContext) -> Node:
    x = ctx.value(0)
    return ctx.b.minimum(ctx.b.maximum(x, ctx.b.scalar_like(0, x)), ctx.b.scalar_like(6, x))


@legalize("Relu6Grad")
def relu6_grad(ctx: NodeContext) -> Node:
    dy, x = ctx.pair()
    inside = ctx.b.op(K.AND, _positive(ctx, x), ctx.b.op(K.LESS, x, ctx.b.scalar_like(6, x)))
    return ctx.b.mul(dy, ctx.b.cast(inside, dy.type.dtype))


@legalize("_MklSwish")
def swish(ctx: NodeContext) -> Node:
    """x sigmoid(x), as TensorFlow's remapper writes it for oneDNN."""
    x = ctx.value(0)
    return ctx.b.mul(x, ctx.b.op(K.SIGMOID, x))


@legalize("LeakyRelu")
def leaky_relu(ctx: NodeContext) -> Node:
    x = ctx.value(0)
    return ctx.b.select(_positive(ctx, x), x, ctx.b.mul(x, ctx.b.scalar_like(ctx.attrs.real("alpha"), x)))


@legalize("LeakyReluGrad")
def leaky_relu_grad(ctx: NodeContext) -> Node:
    dy, x = ctx.pair()
    return ctx.b.select(_positive(ctx, x), dy, ctx.b.mul(dy, ctx.b.scalar_like(ctx.attrs.real("alpha"), dy)))


@legalize("Elu")
def elu(ctx: NodeContext) -> Node:
    x = ctx.value(0)
    return ctx.b.select(_negative(ctx, x), ctx.b.op(K.EXPM1, x), x)


@legalize("EluGrad")
def elu_grad(ctx: NodeContext) -> Node:
    """Takes the op's output y, not its input."""
    dy, y = ctx.pair()
    return ctx.b.select(_negative(ctx, y), ctx.b.mul(ctx.b.add(y, ctx.b.scalar_like(1, y)), dy), dy)


@legalize("Selu")
def selu(ctx: NodeContext) -> Node:
    b, x = ctx.b, ctx.value(0)
    low = b.mul(b.scalar_like(_SELU_SCALE_ALPHA, x), b.op(K.EXPM1, x))
    return b.select(_negative(ctx, x), low, b.mul(b.scalar_like(_SELU_SCALE, x), x))


@legalize("SeluGrad")
def selu_grad(ctx: NodeContext) -> Node:
    """Takes the op's output y, not its input."""
    b, (dy, y) = ctx.b, ctx.pair()
    low = b.mul(dy, b.add(y, b.scalar_like(_SELU_SCALE_ALPHA, y)))
    return b.select(_negative(ctx, y), low, b.mul(dy, b.scalar_like(_SELU_SCALE, y)))


def _epsilon(dtype: DType) -> float:
    return float(ml_dtypes.finfo(dtype.numpy).eps)  # type: ignore[no-untyped-call]


@legalize("Softplus")
def softplus(ctx: NodeContext) -> Node:
    """log(1 + exp(x)); x where it is large, exp(x) where it is small: the threshold is log(eps) + 2."""
    b, x = ctx.b, ctx.value(0)
    threshold = math.log(_epsilon(x.type.dtype)) + 2
    large = b.op(K.GREATER, x, b.scalar_like(-threshold, x))
    small = b.op(K.LESS, x, b.scalar_like(threshold, x))
    e = b.exp(x)
    return b.select(large, x, b.select(small, e, b.op(K.LOG1P, e)))


@legalize("SoftplusGrad")
def softplus_grad(ctx: NodeContext) -> Node:
    b, (dy, x) = ctx.b, ctx.pair()
    return b.div(dy, b.add(b.exp(b.neg(x)), b.scalar_like(1, x)))


@legalize("Softsign")
def softsign(ctx: NodeContext) -> Node:
    b, x = ctx.b, ctx.value(0)
    return b.div(x, b.add(b.op(K.ABS, x), b.scalar_like(1, x)))


@legalize("SoftsignGrad")
def softsign_grad(ctx: NodeContext) -> Node:
    b, (dy, x) = ctx.b, ctx.pair()
    return b.div(dy, b.square(b.add(b.op(K.ABS, x), b.scalar_like(1, x))))
