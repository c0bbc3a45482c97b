"""Shapes of what sizes of two names are broadcast to.

Regions hold no such op, for the IR's broadcasting knows which of its operands' axes have one element. But who needs the
size alone can have it, and where all the sizes that are broadcast together are equal, they may have one name."""

from __future__ import annotations

from itertools import zip_longest

from tf_stitch.frontend.tensorflow.node_context import NodeContext, TensorSpec
from tf_stitch.frontend.tensorflow.size_names import broadcast
from tf_stitch.ir.types import Dim, Shape

_ELEMENTWISE = {"Add": 2, "AddV2": 2, "Sub": 2, "Mul": 2, "RealDiv": 2, "Maximum": 2, "Minimum": 2, "Pow": 2,
                "SquaredDifference": 2, "DivNoNan": 2, "MulNoNan": 2, "Less": 2, "LessEqual": 2, "Greater": 2,
                "GreaterEqual": 2, "Equal": 2, "NotEqual": 2, "LogicalAnd": 2, "LogicalOr": 2,
                "SelectV2": 3}  # fmt: skip
"""Op -> its operands, which broadcast to the result."""
_MATMULS = ("BatchMatMulV2", "BatchMatMulV3")


def broadcast_specs(ctx: NodeContext) -> tuple[TensorSpec, ...]:
    """The output types of a node that stays TensorFlow's, with names for sizes that its operands' sizes give."""
    shape = _shape(ctx)
    spec = ctx.output_specs[0] if ctx.output_specs else TensorSpec(None, None)
    if shape is None or (spec.shape is not None and len(spec.shape) != len(shape)):
        return ctx.output_specs
    theirs = shape if spec.shape is None else spec.shape
    finer = tuple(a if isinstance(a, int) or b is None else b for a, b in zip(theirs, shape, strict=True))
    if any(d is None for d in finer):
        return ctx.output_specs
    return TensorSpec(spec.dtype, tuple(d for d in finer if d is not None)), *ctx.output_specs[1:]


def _shape(ctx: NodeContext) -> tuple[Dim | None, ...] | None:
    """None where the op is another; None for an axis whose sizes contradict each other: the op says so if it runs."""
    if ctx.op in _ELEMENTWISE:
        shapes = [ctx.shape_of(i) for i in range(_ELEMENTWISE[ctx.op])]
        return None if any(s is None for s in shapes) else _broadcast([s for s in shapes if s is not None])
    if ctx.op in _MATMULS:
        x, y = ctx.shape_of(0), ctx.shape_of(1)
        if x is not None and y is not None and min(len(x), len(y)) >= 2:
            rows = x[-1] if ctx.attrs.flag("adj_x") else x[-2]
            columns = y[-2] if ctx.attrs.flag("adj_y") else y[-1]
            return (*_broadcast([x[:-2], y[:-2]]), rows, columns)
    return None


def _broadcast(shapes: list[Shape]) -> tuple[Dim | None, ...]:
    axes = zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
    return tuple(broadcast(sizes) for sizes in axes)[::-1]
