"""Bias, and where the channels are."""

from __future__ import annotations

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node
from tf_stitch.ir.types import Shape


def channel_axis(ctx: NodeContext, rank: int) -> int:
    """The axis of C in data_format (NHWC, NCHW, NDHWC, NCDHW)."""
    data_format = ctx.attrs.string("data_format") if ctx.attrs.has("data_format") else "NHWC"
    if data_format not in ("NHWC", "NCHW", "NDHWC", "NCDHW"):
        raise UnsupportedError(f"data_format {data_format}")
    return rank - 1 if data_format.endswith("C") else 1


def per_channel(b: Builder, vector: Node, rank: int, axis: int) -> Node:
    """A vector of channels, shaped to broadcast against a tensor of `rank`."""
    shape: Shape = tuple(vector.type.shape[0] if a == axis else 1 for a in range(rank))
    return vector if axis == rank - 1 else b.reshape(vector, shape)


@legalize("BiasAdd", "BiasAddV1")
def bias_add(ctx: NodeContext) -> Node:
    x, bias = ctx.value(0), ctx.value(1)
    rank = x.type.rank
    return ctx.b.add(x, per_channel(ctx.b, bias, rank, channel_axis(ctx, rank)))


@legalize("BiasAddGrad")
def bias_add_grad(ctx: NodeContext) -> Node:
    dy = ctx.value(0)
    axis = channel_axis(ctx, dy.type.rank)
    return ctx.b.sum(dy, [a for a in range(dy.type.rank) if a != axis])
