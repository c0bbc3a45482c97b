"""Reductions over axes known at rewrite time, and running sums."""

from __future__ import annotations

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.node_context import NodeContext, StaticValue, is_known
from tf_stitch.frontend.tensorflow.registry import LEGALIZATIONS, Legalization, Legalizer, legalize
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K

_SAME_NAME = {"Sum": K.SUM, "Max": K.MAX, "Min": K.MIN, "All": K.ALL, "Any": K.ANY}


def _axes(ctx: NodeContext, x: Node) -> list[int]:
    return ctx.axes(*ctx.ints(1, "the axes of the reduction"), rank=x.type.rank)


def _reduction(kind: K) -> Legalizer:
    def function(ctx: NodeContext) -> Node:
        x = ctx.value(0)
        return ctx.b.reduce(kind, x, _axes(ctx, x), ctx.attrs.flag("keep_dims"))

    return function


LEGALIZATIONS.update({name: Legalization(_reduction(kind)) for name, kind in _SAME_NAME.items()})


@legalize("Prod")
def prod(ctx: NodeContext) -> Node:
    """The product of a shape is an extent."""
    x, shape = ctx.value(0), ctx.static(0)
    if shape is not None and _is_shape(shape) and x.type.dtype.is_integer and _axes(ctx, x):
        total = ctx.b.extent(tuple(shape.flat), x.type.dtype)
        return ctx.b.reshape(total, (1,)) if ctx.attrs.flag("keep_dims") else total
    return ctx.b.reduce(K.PROD, x, _axes(ctx, x), ctx.attrs.flag("keep_dims"))


def _is_shape(value: StaticValue) -> bool:
    """A known vector with nothing negative."""
    return value.ndim == 1 and is_known(value) and all(not isinstance(e, int) or e >= 0 for e in value.flat)


def accumulate(b: Builder, x: Node) -> Node:
    """x in the type that sums are kept in: a mean of half floats may pass through values that halves lack."""
    return b.cast(x, x.type.dtype.compute)


def _for_mean(b: Builder, x: Node) -> Node:
    """As accumulate; int32 is summed in 64 bits (Eigen's MeanReducer)."""
    return b.cast(x, DType.I64) if x.type.dtype is DType.I32 else accumulate(b, x)


@legalize("Mean")
def mean(ctx: NodeContext) -> Node:
    """Sum over count; integers truncate."""
    x = ctx.value(0)
    axes = _axes(ctx, x)
    if x.type.dtype.is_integer and not all(isinstance(d, int) and d > 0 for d in (x.type.shape[a] for a in axes)):
        raise UnsupportedError("an integer mean of what may be empty")
    if not axes:
        return x
    return ctx.b.cast(ctx.b.mean(_for_mean(ctx.b, x), axes, ctx.attrs.flag("keep_dims")), x.type.dtype)


@legalize("EuclideanNorm")
def euclidean_norm(ctx: NodeContext) -> Node:
    x = ctx.value(0)
    total = ctx.b.reduce(K.SUM, ctx.b.square(accumulate(ctx.b, x)), _axes(ctx, x), ctx.attrs.flag("keep_dims"))
    return ctx.b.cast(ctx.b.op(K.SQRT, total), x.type.dtype)


@legalize("L2Loss")
def l2_loss(ctx: NodeContext) -> Node:
    """Half the sum of squares."""
    b, x = ctx.b, ctx.value(0)
    wide = accumulate(b, x)
    total = b.sum(b.square(wide), range(x.type.rank))
    return b.cast(b.mul(total, b.scalar_like(0.5, total)), x.type.dtype)


@legalize("ArgMax", "ArgMin")
def arg_reduce(ctx: NodeContext) -> Node:
    x = ctx.value(0)
    if x.type.dtype is DType.BOOL or x.type.rank == 0:
        raise UnsupportedError(f"{ctx.op} of {x.type}")
    axis = ctx.axis(1, x.type.rank)
    return ctx.b.arg_reduce(K.ARGMAX if ctx.op == "ArgMax" else K.ARGMIN, x, axis, ctx.attrs.dtype("output_type"))


@legalize("Cumsum", "Cumprod")
def scan(ctx: NodeContext) -> Node:
    """Along the last axis, where the IR scans; another axis changes places with it."""
    b, x = ctx.b, ctx.value(0)
    if x.type.rank == 0:
        raise UnsupportedError("a running sum of a scalar")
    along = b.cumsum if ctx.op == "Cumsum" else b.cumprod
    axis = ctx.axis(1, x.type.rank)
    perm = list(range(x.type.rank))
    perm[axis], perm[-1] = perm[-1], perm[axis]
    total = along(b.transpose(x, perm), ctx.attrs.flag("exclusive"), ctx.attrs.flag("reverse"))
    return b.transpose(total, perm)
