"""Ops of two or three broadcast operands (tensorflow/core/kernels/cwise_ops.h)."""

from __future__ import annotations

import numpy as np

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import LEGALIZATIONS, Legalization, Legalizer, legalize
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ConstantAttrs
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.types import broadcast_shapes

_SAME_NAME = {
    "Add": K.ADD, "AddV2": K.ADD, "Sub": K.SUB, "Mul": K.MUL, "Maximum": K.MAXIMUM, "Minimum": K.MINIMUM,
    "Atan2": K.ATAN2, "Less": K.LESS, "LessEqual": K.LESS_EQUAL, "Greater": K.GREATER, "GreaterEqual": K.GREATER_EQUAL,
    "Equal": K.EQUAL, "NotEqual": K.NOT_EQUAL, "LogicalAnd": K.AND, "LogicalOr": K.OR, "BitwiseAnd": K.AND,
    "BitwiseOr": K.OR, "BitwiseXor": K.XOR,
}
_DIVISIONS = {"Div": K.DIV, "RealDiv": K.DIV, "FloorDiv": K.FLOOR_DIV, "FloorMod": K.FLOOR_MOD, "Mod": K.TRUNC_MOD,
              "TruncateMod": K.TRUNC_MOD}
_MAX_POWER = 16


def _binary(kind: K) -> Legalizer:
    return lambda ctx: ctx.b.op(kind, ctx.value(0), ctx.value(1))


def _division(kind: K) -> Legalizer:
    """Integer division by zero is an error that TensorFlow raises at run time: the divisor must be seen to
    be none."""

    return lambda ctx: ctx.b.op(kind, *_dividend_and_divisor(ctx))


def _dividend_and_divisor(ctx: NodeContext) -> tuple[Node, Node]:
    x, y = ctx.value(0), ctx.value(1)
    if y.type.dtype.is_integer and not _never_zero(y):
        raise UnsupportedError("an integer division must raise at run time if the divisor is 0")
    return x, y


def _never_zero(node: Node) -> bool:
    if isinstance(node.attrs, ConstantAttrs):
        # -1 is left out too: the smallest integer divided by it overflows, and traps on x86
        return bool(((node.attrs.value != 0) & (node.attrs.value != -1)).all())
    if node.kind is K.MAXIMUM:
        constants = [o.attrs.value for o in node.operands if isinstance(o.attrs, ConstantAttrs)]
        return any(bool(np.greater(value, 0).all()) for value in constants)
    return node.kind in (K.BROADCAST, K.RESHAPE) and _never_zero(node.operands[0])


LEGALIZATIONS.update({name: Legalization(_binary(kind)) for name, kind in _SAME_NAME.items()})
LEGALIZATIONS.update({name: Legalization(_division(kind)) for name, kind in _DIVISIONS.items()})


@legalize("TruncateDiv")
def truncate_div(ctx: NodeContext) -> Node:
    """Towards zero."""
    b = ctx.b
    quotient = b.div(*_dividend_and_divisor(ctx))
    if quotient.type.dtype.is_integer:
        return quotient
    negative = b.op(K.LESS, quotient, b.scalar_like(0, quotient))
    return b.select(negative, b.op(K.CEIL, quotient), b.op(K.FLOOR, quotient))


def _where_zero(ctx: NodeContext, tested: Node, zero: Node, otherwise: Node) -> Node:
    """`zero` where `tested` is 0, whatever `otherwise` holds there."""
    return ctx.b.select(ctx.b.op(K.EQUAL, tested, ctx.b.scalar_like(0, tested)), zero, otherwise)


@legalize("DivNoNan")
def div_no_nan(ctx: NodeContext) -> Node:
    x, y = ctx.value(0), ctx.value(1)
    return _where_zero(ctx, y, ctx.b.scalar_like(0, y), ctx.b.div(x, y))


@legalize("MulNoNan")
def mul_no_nan(ctx: NodeContext) -> Node:
    x, y = ctx.value(0), ctx.value(1)
    return _where_zero(ctx, y, ctx.b.scalar_like(0, y), ctx.b.mul(x, y))


@legalize("Xdivy")
def xdivy(ctx: NodeContext) -> Node:
    x, y = ctx.value(0), ctx.value(1)
    return _where_zero(ctx, x, x, ctx.b.div(x, y))


@legalize("Xlogy")
def xlogy(ctx: NodeContext) -> Node:
    x, y = ctx.value(0), ctx.value(1)
    return _where_zero(ctx, x, x, ctx.b.mul(x, ctx.b.op(K.LOG, y)))


@legalize("Xlog1py")
def xlog1py(ctx: NodeContext) -> Node:
    x, y = ctx.value(0), ctx.value(1)
    return _where_zero(ctx, x, x, ctx.b.mul(x, ctx.b.op(K.LOG1P, y)))


@legalize("SquaredDifference")
def squared_difference(ctx: NodeContext) -> Node:
    return ctx.b.square(ctx.b.sub(ctx.value(0), ctx.value(1)))


@legalize("Pow")
def pow_(ctx: NodeContext) -> Node:
    """Floats by pow; integers by repeated squaring of a small constant exponent (TensorFlow raises at run time
    for a negative one)."""
    b, x, y = ctx.b, ctx.value(0), ctx.value(1)
    if x.type.dtype.is_float:
        return b.op(K.POW, x, y)
    exponents = {int(e) for e in ctx.array(1, "the exponent").flat}
    if len(exponents) != 1 or not 0 <= min(exponents) <= _MAX_POWER:
        raise UnsupportedError("an integer power needs one small constant exponent")
    exponent = exponents.pop()
    result: Node | None = None
    power = x
    while exponent:
        if exponent & 1:
            result = power if result is None else b.mul(result, power)
        exponent >>= 1
        power = b.square(power) if exponent else power
    return b.broadcast(result or b.scalar_like(1, x), broadcast_shapes([x.type.shape, y.type.shape]))


@legalize("SelectV2")
def select_v2(ctx: NodeContext) -> Node:
    return ctx.b.select(*ctx.values())


@legalize("Select")
def select(ctx: NodeContext) -> Node:
    """The condition has the shape of the branches, or is a scalar, or a vector that picks rows."""
    condition, x, y = ctx.values()
    if condition.type.rank == 1 and x.type.rank > 1:
        condition = ctx.b.reshape(condition, condition.type.shape + (1,) * (x.type.rank - 1))
    return ctx.b.select(condition, x, y)


@legalize("ClipByValue")
def clip_by_value(ctx: NodeContext) -> Node:
    """max(min(t, high), low), a NaN in t stays and one in a bound is no bound: as Eigen's cwiseMin and cwiseMax
    of these operands do. A bound is a scalar, or one for each element."""
    b, t = ctx.b, ctx.value(0)
    low, high = (bound if bound.type.rank == 0 else ctx.fitted(bound, t.type.shape) for bound in ctx.values(1))
    capped = b.select(b.op(K.LESS, high, t), high, t)
    return b.select(b.op(K.LESS, capped, low), low, capped)


@legalize("AddN", "AccumulateNV2")
def add_n(ctx: NodeContext) -> Node:
    total, *rest = ctx.values()
    for x in rest:
        if x.type.rank != total.type.rank:
            raise UnsupportedError("operands of different ranks")
        total = ctx.b.add(total, x)
    return total
