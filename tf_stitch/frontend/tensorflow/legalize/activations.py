"""Activations and their gradients (relu_op_functor.h, softplus_op.h, softsign_op.h).

Gradients of the relu family multiply by 0 or 1, as TensorFlow's CPU kernels do: an infinite gradient of a
closed unit is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K

_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_SCALE_ALPHA = 1.7580993408473768599402175208123


def _positive(ctx: NodeContext, x: Node) -> Node:
    return ctx.b.op(K.GREATER, x, ctx.b.scalar_like(0, x))


def _negative(ctx: NodeContext, x: Node) -> Node:
    return ctx.b.op(K.LESS, x, ctx.b.scalar_like(0, x))


def _relu(b: Builder, x: Node) -> Node:
    return b.maximum(x, b.scalar_like(0, x))


@legalize("Relu")
def relu(ctx: NodeContext) -> Node:
    return _relu(ctx.b, ctx.value(0))


@legalize("ReluGrad")
def relu_grad(ctx: NodeContext) -> Node:
    dy, x = ctx.pair()
    return ctx.b.mul(dy, ctx.b.cast(_positive(ctx, x), dy.type.dtype))


def _relu6(b: Builder, x: Node) -> Node:
    return b.minimum(_relu(b, x), b.scalar_like(6, x))


@legalize("Relu6")
def relu6(ctx: NodeContext) -> Node:
    return _relu6(ctx.b, ctx.value(0))


@legalize("Relu6Grad")
def relu6_grad(ctx: NodeContext) -> Node:
    dy, x = ctx.pair()
    inside = ctx.b.op(K.AND, _positive(ctx, x), ctx.b.op(K.LESS, x, ctx.b.scalar_like(6, x)))
    return ctx.b.mul(dy, ctx.b.cast(inside, dy.type.dtype))


def _swish(b: Builder, x: Node) -> Node:
    return b.mul(x, b.op(K.SIGMOID, x))


@legalize("_MklSwish")
def swish(ctx: NodeContext) -> Node:
    """x sigmoid(x), as TensorFlow's remapper writes it for oneDNN."""
    return _swish(ctx.b, ctx.value(0))


def _leaky_relu(ctx: NodeContext, x: Node, alpha: str) -> Node:
    """Args:
        alpha: the attribute that has the slope below zero.
    """
    return ctx.b.select(_positive(ctx, x), x, ctx.b.mul(x, ctx.b.scalar_like(ctx.attrs.real(alpha), x)))


@legalize("LeakyRelu")
def leaky_relu(ctx: NodeContext) -> Node:
    return _leaky_relu(ctx, ctx.value(0), "alpha")


@legalize("LeakyReluGrad")
def leaky_relu_grad(ctx: NodeContext) -> Node:
    dy, x = ctx.pair()
    return ctx.b.select(_positive(ctx, x), dy, ctx.b.mul(dy, ctx.b.scalar_like(ctx.attrs.real("alpha"), dy)))


def _elu(ctx: NodeContext, x: Node) -> Node:
    return ctx.b.select(_negative(ctx, x), ctx.b.op(K.EXPM1, x), x)


@legalize("Elu")
def elu(ctx: NodeContext) -> Node:
    return _elu(ctx, ctx.value(0))


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


def _hard_swish(b: Builder, x: Node) -> Node:
    return b.mul(x, b.mul(_relu6(b, b.add(x, b.scalar_like(3, x))), b.scalar_like(1 / 6, x)))


def _gelu(b: Builder, x: Node) -> Node:
    return _half_of_both(b, x, b.op(K.ERF, b.mul(x, b.scalar_like(math.sqrt(0.5), x))))


def _gelu_by_tanh(b: Builder, x: Node) -> Node:
    cube = b.mul(b.mul(b.square(x), x), b.scalar_like(0.044715, x))
    return _half_of_both(b, x, b.op(K.TANH, b.mul(b.add(x, cube), b.scalar_like(math.sqrt(2 / math.pi), x))))


def _half_of_both(b: Builder, x: Node, part: Node) -> Node:
    """x (1 + part) / 2."""
    return b.mul(b.mul(x, b.scalar_like(0.5, x)), b.add(part, b.scalar_like(1, x)))


_FUSED: dict[str, Callable[[NodeContext, Node], Node]] = {
    "Relu": lambda ctx, x: _relu(ctx.b, x), "Relu6": lambda ctx, x: _relu6(ctx.b, x), "Elu": _elu,
    "LeakyRelu": lambda ctx, x: _leaky_relu(ctx, x, "leakyrelu_alpha"), "Tanh": lambda ctx, x: ctx.b.op(K.TANH, x),
    "Sigmoid": lambda ctx, x: ctx.b.op(K.SIGMOID, x), "GeluExact": lambda ctx, x: _gelu(ctx.b, x),
    "GeluApproximate": lambda ctx, x: _gelu_by_tanh(ctx.b, x), "_MklSwish": lambda ctx, x: _swish(ctx.b, x),
    "_FusedHardSwish": lambda ctx, x: _hard_swish(ctx.b, x)}


def fused_activation(ctx: NodeContext, x: Node, name: str) -> Node:
    """An activation that TensorFlow's remapper put behind another op, by the name that its op gives it.

    Raises:
        UnsupportedError: none of that name is known.
    """
    if name not in _FUSED:
        fused = ctx.attrs.strings("fused_ops") if ctx.attrs.has("fused_ops") else (name,)
        raise UnsupportedError(f"{ctx.op} with {', '.join(fused)}")
    return _FUSED[name](ctx, x)
