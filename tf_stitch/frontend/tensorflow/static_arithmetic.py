"""Integer arithmetic on static values; on symbols only where it is exact for every size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tf_stitch.frontend.tensorflow.node_context import NodeContext, StaticValue, is_fixed, is_known
from tf_stitch.frontend.tensorflow.static_values import Element, add, as_static, product, required, static_rule
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ConstantAttrs
from tf_stitch.ir.op_kinds import OpKind


@static_rule("Mul")
def _mul(ctx: NodeContext) -> list[StaticValue | None]:
    return _elementwise(ctx, lambda x, y: product([x, y]))


@static_rule("Add", "AddV2")
def _addition(ctx: NodeContext) -> list[StaticValue | None]:
    return _elementwise(ctx, add)


@static_rule("Sub")
def _sub(ctx: NodeContext) -> list[StaticValue | None]:
    def sub(x: Element, y: Element) -> Element:
        if isinstance(x, int) and isinstance(y, int):
            return x - y
        return x if y == 0 else 0 if x == y and x is not None else None

    return _elementwise(ctx, sub)


@static_rule("FloorDiv")
def _floor_div(ctx: NodeContext) -> list[StaticValue | None]:
    def floor_div(x: Element, y: Element) -> Element:
        if isinstance(x, int) and isinstance(y, int):
            return x // y if y else None
        return x if y == 1 else None

    return _elementwise(ctx, floor_div)


@static_rule("FloorMod")
def _floor_mod(ctx: NodeContext) -> list[StaticValue | None]:
    def floor_mod(x: Element, y: Element) -> Element:
        return x % y if isinstance(x, int) and isinstance(y, int) and y else None

    return _elementwise(ctx, floor_mod)


@static_rule("Maximum")
def _maximum(ctx: NodeContext) -> list[StaticValue | None]:
    def maximum(x: Element, y: Element) -> Element:
        if isinstance(x, int) and isinstance(y, int):
            return max(x, y)
        if x == y or (isinstance(y, int) and y <= 0):  # a dimension is never negative
            return x
        return y if isinstance(x, int) and x <= 0 else None

    return _elementwise(ctx, maximum)


@static_rule("Minimum")
def _minimum(ctx: NodeContext) -> list[StaticValue | None]:
    """Also of a number and what is as large at least, whatever it is: numbers of classes, of which TensorFlow counts as
    many as values say, but no fewer and no more (`tf.math.bincount` with equal `minlength` and `maxlength`)."""
    for bound, other in ((0, 1), (1, 0)):
        most, least = ctx.static(bound), _least(ctx.operands[other].node)
        if most is not None and most.shape == () and is_fixed(most) and least is not None and least >= most.item():
            return [most]

    def minimum(x: Element, y: Element) -> Element:
        return min(x, y) if isinstance(x, int) and isinstance(y, int) else x if x == y else None

    return _elementwise(ctx, minimum)


def _least(node: Node | None) -> int | None:
    """What a scalar is at least, if it is the larger of a constant and something."""
    if node is None or node.kind is not OpKind.MAXIMUM or node.type.shape != ():
        return None
    constants = [o.attrs.value for o in node.operands if isinstance(o.attrs, ConstantAttrs)]
    return int(constants[0].item()) if constants else None


@static_rule("Neg")
def _neg(ctx: NodeContext) -> list[StaticValue | None]:
    value = required(ctx, 0)
    return [as_static([-e if isinstance(e, int) else None for e in value.flat]).reshape(value.shape)]


@static_rule("SelectV2", "Select")
def _select(ctx: NodeContext) -> list[StaticValue | None]:
    x, y = ctx.static(1), ctx.static(2)
    same = x is not None and y is not None and x.shape == y.shape and is_known(x) and bool(np.all(x == y))
    return [x if same else None]


def _elementwise(ctx: NodeContext, function: Callable[[Element, Element], Element]) -> list[StaticValue | None]:
    """`function` over two broadcast values; a result that does not fit the output's dtype is unknown."""
    dtype = ctx.output_specs[0].dtype
    if dtype is None or not dtype.is_integer:
        return [None]
    x, y = np.broadcast_arrays(required(ctx, 0), required(ctx, 1))
    limit = 1 << (8 * dtype.size - 1)
    out = np.empty(x.shape, object)
    for index, pair in enumerate(zip(x.flat, y.flat, strict=True)):
        e = function(*pair)
        out.flat[index] = None if isinstance(e, int) and not -limit <= e < limit else e
    return [out]
