"""Ops of one operand: NaN and rounding follow Eigen's functors, which TensorFlow's kernels are."""

from __future__ import annotations

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import LEGALIZATIONS, Legalization, Legalizer, legalize
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K

_SAME_NAME = {
    "Neg": K.NEG, "Abs": K.ABS, "Sign": K.SIGN, "Exp": K.EXP, "Expm1": K.EXPM1, "Log": K.LOG, "Log1p": K.LOG1P,
    "Sqrt": K.SQRT, "Rsqrt": K.RSQRT, "Reciprocal": K.RECIPROCAL, "Inv": K.RECIPROCAL, "Tanh": K.TANH,
    "Sigmoid": K.SIGMOID, "Erf": K.ERF, "Erfc": K.ERFC, "Sin": K.SIN, "Cos": K.COS, "Tan": K.TAN, "Asin": K.ASIN,
    "Acos": K.ACOS, "Atan": K.ATAN, "Sinh": K.SINH, "Cosh": K.COSH, "Asinh": K.ASINH, "Acosh": K.ACOSH,
    "Atanh": K.ATANH, "Lgamma": K.LGAMMA, "Floor": K.FLOOR, "Ceil": K.CEIL, "Rint": K.RINT, "Round": K.RINT,
    "LogicalNot": K.LOGICAL_NOT, "Invert": K.INVERT, "IsNan": K.IS_NAN, "IsInf": K.IS_INF, "IsFinite": K.IS_FINITE,
}


def _unary(kind: K) -> Legalizer:
    return lambda ctx: ctx.b.op(kind, ctx.value(0))


LEGALIZATIONS.update({name: Legalization(_unary(kind)) for name, kind in _SAME_NAME.items()})


@legalize("_UnaryOpsComposition")
def unary_composition(ctx: NodeContext) -> Node:
    """A chain that TensorFlow's arithmetic optimizer made of ops of one operand (unary_ops_composition.cc)."""
    x = ctx.value(0)
    for op in ctx.attrs.strings("op_names"):
        if op in _SAME_NAME:
            x = ctx.b.op(_SAME_NAME[op], x)
        elif op == "Square":
            x = ctx.b.square(x)
        elif op == "Relu":
            x = ctx.b.maximum(x, ctx.b.scalar_like(0, x))
        else:
            raise UnsupportedError(f"{op} in a composition")
    return x


@legalize("Square")
def square(ctx: NodeContext) -> Node:
    return ctx.b.square(ctx.value(0))


@legalize("Cast")
def cast(ctx: NodeContext) -> Node:
    if ctx.attrs.flag("Truncate"):
        raise UnsupportedError("Cast with Truncate")
    return ctx.b.cast(ctx.value(0), ctx.attrs.dtype("DstT"))


@legalize("Bitcast")
def bitcast(ctx: NodeContext) -> Node:
    """Reinterprets the bits of a float32; no other type."""
    if ctx.attrs.dtype("type") is not DType.I32:
        raise UnsupportedError(f"Bitcast to {ctx.attrs.dtype('type').value}")
    return ctx.b.op(K.BITS, ctx.value(0))


@legalize("OnesLike")
def ones_like(ctx: NodeContext) -> Node:
    x = ctx.value(0)
    return ctx.b.broadcast(ctx.b.scalar_like(1, x), x.type.shape)


@legalize("ZerosLike")
def zeros_like(ctx: NodeContext) -> Node:
    x = ctx.value(0)
    return ctx.b.broadcast(ctx.b.scalar_like(0, x), x.type.shape)


def _no_gradient_no_matter(ctx: NodeContext, dy: Node, gradient: Node) -> Node:
    """0 where dy is: these three functors of Eigen say so even where y is infinite or NaN."""
    zero = ctx.b.scalar_like(0, dy)
    return ctx.b.select(ctx.b.op(K.EQUAL, dy, zero), zero, gradient)


# The functors compute vectors of elements in another order than single ones (the last of a tensor): the vectors' here.


@legalize("SqrtGrad")
def sqrt_grad(ctx: NodeContext) -> Node:
    """(0.5 / y) dy: Eigen scalar_sqrt_gradient_op."""
    b, (y, dy) = ctx.b, ctx.pair()
    return _no_gradient_no_matter(ctx, dy, b.mul(b.div(b.scalar_like(0.5, y), y), dy))


@legalize("RsqrtGrad")
def rsqrt_grad(ctx: NodeContext) -> Node:
    """(-0.5 y^2) (y dy), and 0 where y dy is 0: scalar_rsqrt_gradient_op."""
    b, (y, dy) = ctx.b, ctx.pair()
    slope = _no_gradient_no_matter(ctx, dy, b.mul(y, dy))
    return _no_gradient_no_matter(ctx, slope, b.mul(b.mul(b.scalar_like(-0.5, y), b.square(y)), slope))


@legalize("ReciprocalGrad", "InvGrad")
def reciprocal_grad(ctx: NodeContext) -> Node:
    """-(y^2) dy: scalar_inverse_gradient_op."""
    b, (y, dy) = ctx.b, ctx.pair()
    return _no_gradient_no_matter(ctx, dy, b.mul(b.neg(b.square(y)), dy))


@legalize("TanhGrad")
def tanh_grad(ctx: NodeContext) -> Node:
    """dy (1 - y^2): scalar_tanh_gradient_op."""
    b, (y, dy) = ctx.b, ctx.pair()
    return b.mul(dy, b.sub(b.scalar_like(1, y), b.square(y)))


@legalize("SigmoidGrad")
def sigmoid_grad(ctx: NodeContext) -> Node:
    """dy (y (1 - y)): scalar_sigmoid_gradient_op."""
    b, (y, dy) = ctx.b, ctx.pair()
    return b.mul(dy, b.mul(y, b.sub(b.scalar_like(1, y), y)))
