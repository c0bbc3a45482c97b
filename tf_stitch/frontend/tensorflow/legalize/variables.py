"""Reading and assigning resource variables (tensorflow/core/kernels/resource_variable_ops.cc)."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.graph import Node


@legalize("ReadVariableOp", weight=0)
def read_variable(ctx: NodeContext) -> Node:
    return ctx.read(0, ctx.output_specs[0].shape)


@legalize("AssignVariableOp", weight=0)
def assign(ctx: NodeContext) -> Sequence[Node]:
    value, shape = ctx.value(1), ctx.shape_of_variable(0)
    if ctx.attrs.flag("validate_shape"):
        if shape is None and not value.type.is_static:
            raise UnsupportedError("the shape of what is assigned is checked at run time")
        value = value if shape is None else ctx.fitted(value, shape)
    ctx.write(0, value)
    return ()


@legalize("AssignAddVariableOp")
def assign_add(ctx: NodeContext) -> Sequence[Node]:
    before, delta = _before_and_delta(ctx)
    ctx.write(0, ctx.b.add(before, delta))
    return ()


@legalize("AssignSubVariableOp")
def assign_sub(ctx: NodeContext) -> Sequence[Node]:
    before, delta = _before_and_delta(ctx)
    ctx.write(0, ctx.b.sub(before, delta))
    return ()


def _before_and_delta(ctx: NodeContext) -> tuple[Node, Node]:
    """Of one shape: nothing is broadcast."""
    before = ctx.read(0, ctx.value(1).type.shape)
    return before, ctx.fitted(ctx.value(1), before.type.shape)
