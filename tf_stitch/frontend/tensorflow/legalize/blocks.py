"""Ops that move blocks of pixels between axes of an image and its batch or channels, which dilated convolutions and
networks that enlarge images are made of, and axes that are read from another element on."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.legalize.bias import with_channels_last
from tf_stitch.frontend.tensorflow.legalize.movement import along_axis
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.frontend.tensorflow.size_names import quotient
from tf_stitch.ir.graph import Node
from tf_stitch.ir.types import Dim


@legalize("SpaceToBatchND")
def space_to_batch(ctx: NodeContext) -> Node:
    """[n, s b, ...] -> [b n, s, ...]: an image for each place in a block."""
    block, paddings = ctx.ints(1, "the block's shape"), ctx.ints(2, "the padding")
    axes, rest = len(block), ctx.value(0).type.rank - 1 - len(block)
    x = ctx.b.pad(ctx.value(0), ctx.b.scalar_like(0, ctx.value(0)), (0, *paddings[0::2], *[0] * rest),
                  (0, *paddings[1::2], *[0] * rest))
    batch, others = x.type.shape[0], x.type.shape[1 + axes:]
    steps = _steps(x.type.shape[1:1 + axes], block)
    split = ctx.b.reshape(x, (batch, *(d for pair in zip(steps, block, strict=True) for d in pair), *others))
    order = (*range(2, 2 * axes + 1, 2), 0, *range(1, 2 * axes, 2), *range(2 * axes + 1, split.type.rank))
    return ctx.b.reshape(ctx.b.transpose(split, order), (_named([batch, *block], []), *steps, *others))


@legalize("BatchToSpaceND")
def batch_to_space(ctx: NodeContext) -> Node:
    """[b n, s, ...] -> [n, s b, ...] without what is cropped at both ends."""
    x, block, crops = ctx.value(0), ctx.ints(1, "the block's shape"), ctx.ints(2, "what is cropped")
    axes = len(block)
    space, others = known_sizes(x.type.shape[1:1 + axes]), x.type.shape[1 + axes:]
    batch = _named([x.type.shape[0]], block)
    split = ctx.b.reshape(x, (*block, batch, *space, *others))
    pairs = [a for i in range(axes) for a in (axes + 1 + i, i)]
    joined = ctx.b.transpose(split, (axes, *pairs, *range(2 * axes + 1, split.type.rank)))
    sizes = [size * step for size, step in zip(space, block, strict=True)]
    left = [size - low - high for size, low, high in zip(sizes, crops[0::2], crops[1::2], strict=True)]
    if min(left, default=0) < 0:
        raise UnsupportedError(f"{list(crops)} are cropped of {sizes}: an error at run time")
    whole = ctx.b.reshape(joined, (batch, *sizes, *others))
    return ctx.b.slice(whole, (0, *crops[0::2], *[0] * len(others)), [1] * whole.type.rank, (batch, *left, *others))


def _depth_to_space(ctx: NodeContext, images: list[Node]) -> Node:
    """Channels [b, b, c] become blocks of pixels."""
    [x], size = images, ctx.attrs.integer("block_size")
    batch, (height, width) = x.type.shape[0], known_sizes(x.type.shape[1:3])
    channels, = _steps(x.type.shape[3:], [size * size])
    split = ctx.b.reshape(x, (batch, height, width, size, size, channels))
    moved = ctx.b.transpose(split, (0, 1, 3, 2, 4, 5))
    return ctx.b.reshape(moved, (batch, height * size, width * size, channels))


def _space_to_depth(ctx: NodeContext, images: list[Node]) -> Node:
    """Blocks of pixels become channels [b, b, c]."""
    [x], size = images, ctx.attrs.integer("block_size")
    batch, (height, width) = x.type.shape[0], _steps(x.type.shape[1:3], [size, size])
    depth, = known_sizes(x.type.shape[3:])
    split = ctx.b.reshape(x, (batch, height, size, width, size, depth))
    moved = ctx.b.transpose(split, (0, 1, 3, 2, 4, 5))
    return ctx.b.reshape(moved, (batch, height, width, size * size * depth))


legalize("DepthToSpace")(with_channels_last(_depth_to_space, 0))
legalize("SpaceToDepth")(with_channels_last(_space_to_depth, 0))


@legalize("Roll")
def roll(ctx: NodeContext) -> Node:
    """What is shifted out at one end of an axis comes in at the other."""
    x = ctx.value(0)
    shifts, axes = ctx.ints(1, "the shift"), ctx.axes(*ctx.ints(2, "the axis"), rank=x.type.rank)
    for shift, axis in zip(shifts, axes, strict=True):
        size, = known_sizes([x.type.shape[axis]])
        if first := -shift % max(size, 1):
            parts = along_axis(ctx.b, x, axis, first, size - first), along_axis(ctx.b, x, axis, 0, first)
            x = ctx.b.concat(parts, axis)
    return x


def known_sizes(sizes: Sequence[Dim]) -> list[int]:
    known = [d for d in sizes if isinstance(d, int)]
    if len(known) != len(sizes):
        raise UnsupportedError("an image, or an axis, has a size that is decided at run time")
    return known


def _steps(sizes: Sequence[Dim], block: Sequence[int]) -> list[int]:
    """Blocks along each axis."""
    known = known_sizes(sizes)
    if any(size % step for size, step in zip(known, block, strict=True)):
        raise UnsupportedError(f"blocks of {list(block)} of {known}: an error at run time")
    return [size // step for size, step in zip(known, block, strict=True)]


def _named(sizes: Sequence[Dim], parts: Sequence[int]) -> Dim:
    """The product of sizes, in this many parts."""
    size = quotient(sizes, parts)
    if size is None:
        raise UnsupportedError(f"blocks of {list(parts)} of a batch whose size is decided at run time")
    return size
