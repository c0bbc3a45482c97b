"""Ops that change the shape and copy nothing."""

from __future__ import annotations

import math
from collections import Counter

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.graph import Node
from tf_stitch.ir.types import Dim, Shape, Symbol


@legalize("Identity", "StopGradient", "PreventGradient", "Snapshot", weight=0)
def identity(ctx: NodeContext) -> Node:
    return ctx.value(0)


@legalize("IdentityN", weight=0)
def identity_n(ctx: NodeContext) -> list[Node]:
    return ctx.values()


@legalize("EnsureShape", weight=0)
def ensure_shape(ctx: NodeContext) -> Node:
    x = ctx.value(0)
    asked = ctx.attrs.shape("shape")
    if asked is not None:
        fits = len(asked) == x.type.rank and all(
            size < 0 or size == dim for size, dim in zip(asked, x.type.shape, strict=True))
        if not fits:
            raise UnsupportedError("the shape is checked at run time")
    return x


@legalize("Reshape", weight=0)
def reshape(ctx: NodeContext) -> Node:
    x = ctx.value(0)
    return ctx.b.reshape(x, _resolve(ctx, x.type.shape, ctx.target_shape(1)))


def _resolve(ctx: NodeContext, source: Shape, target: list[Dim | None]) -> Shape:
    """Fills the one gap of `target` from the sizes of `source` if they cancel, else with a new symbol that is
    bound at run time."""
    gaps = [axis for axis, dim in enumerate(target) if dim is None]
    known = tuple(dim for dim in target if dim is not None)
    if not gaps:
        return known
    if len(gaps) > 1:
        raise UnsupportedError(f"the shape of {ctx.name}:0 is decided at run time")
    quotient = _quotient(source, known)
    filled: Dim = ctx.fresh_symbol(f"r{gaps[0]}") if quotient is None else quotient
    return known[:gaps[0]] + (filled,) + known[gaps[0]:]


def _quotient(source: Shape, known: Shape) -> Dim | None:
    """Product of `source` over product of `known`, if it is a number or one symbol."""
    above, below = (Counter(d for d in dims if isinstance(d, Symbol)) for dims in (source, known))
    numerator, denominator = (math.prod(d for d in dims if isinstance(d, int)) for dims in (source, known))
    if below - above or denominator == 0 or numerator % denominator:
        return None
    left = list((above - below).elements())
    ratio = numerator // denominator
    if not left:
        return ratio if not below else None if numerator == 0 else ratio
    return left[0] if len(left) == 1 and ratio == 1 else None


@legalize("ExpandDims", weight=0)
def expand_dims(ctx: NodeContext) -> Node:
    x = ctx.value(0)
    axis = ctx.axis(1, x.type.rank + 1)
    return ctx.b.reshape(x, x.type.shape[:axis] + (1,) + x.type.shape[axis:])


@legalize("Squeeze", weight=0)
def squeeze(ctx: NodeContext) -> Node:
    """The axes given, or every axis of size 1; an axis of unknown size must be given, and is taken to be 1."""
    x = ctx.value(0)
    axes = {a % x.type.rank for a in ctx.attrs.integers("squeeze_dims")}
    if not axes:
        if not x.type.is_static:
            raise UnsupportedError("which axes have size 1 is decided at run time")
        axes = {a for a, d in enumerate(x.type.shape) if d == 1}
    if any(isinstance(x.type.shape[a], int) and x.type.shape[a] != 1 for a in axes):
        raise UnsupportedError("squeezing an axis that is not 1")
    return ctx.b.reshape(x, tuple(d for a, d in enumerate(x.type.shape) if a not in axes))


@legalize("BroadcastTo")
def broadcast_to(ctx: NodeContext) -> Node:
    return ctx.b.broadcast(ctx.value(0), ctx.known_shape(1))
