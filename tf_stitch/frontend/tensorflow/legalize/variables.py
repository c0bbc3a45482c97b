"""Reading and assigning resource variables (tensorflow/core/kernels/resource_variable_ops.cc)."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.graph import Node


@legalize("ReadVariableOp", weight=0)
def read_variable(ctx: NodeContext) -> Node:
    return ctx.read(0, ctx.output_specs[0].shape)


@legalize("AssignVariableOp", weight=0)
def assign(ctx: NodeContext) -> Sequence[Node]:
    ctx.write(0, ctx.value(1))
    return ()


@legalize("AssignAddVariableOp")
def assign_add(ctx: NodeContext) -> Sequence[Node]:
    delta = ctx.value(1)
    ctx.write(0, ctx.b.add(ctx.read(0, delta.type.shape), delta))
    return ()


@legalize("AssignSubVariableOp")
def assign_sub(ctx: NodeContext) -> Sequence[Node]:
    delta = ctx.value(1)
    ctx.write(0, ctx.b.sub(ctx.read(0, delta.type.shape), delta))
    return ()
