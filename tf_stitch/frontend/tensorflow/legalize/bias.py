"""Bias, and where the channels are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import Legalizer, legalize
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node
from tf_stitch.ir.types import Shape

OfImages: TypeAlias = Callable[[NodeContext, list[Node]], Node]
"""Of images [n, h, w, c] or [n, d, h, w, c]."""


def channel_axis(ctx: NodeContext, rank: int) -> int:
    """The axis of C in data_format (NHWC, NCHW, NDHWC, NCDHW)."""
    data_format = ctx.attrs.string("data_format") if ctx.attrs.has("data_format") else "NHWC"
    if data_format not in ("NHWC", "NCHW", "NDHWC", "NCDHW"):
        raise UnsupportedError(f"data_format {data_format}")
    return rank - 1 if data_format.endswith("C") else 1


def with_channels_last(function: OfImages, *inputs: int) -> Legalizer:
    """A legalisation of a function of images with channels last: these inputs."""

    def legalized(ctx: NodeContext) -> Node:
        images = [ctx.value(i) for i in inputs]
        rank = images[0].type.rank
        if rank not in (4, 5):
            raise UnsupportedError(f"images {images[0].type}")
        if channel_axis(ctx, rank) == rank - 1:
            return function(ctx, images)
        last, before = (0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))
        return ctx.b.transpose(function(ctx, [ctx.b.transpose(x, last) for x in images]), before)

    return legalized


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
