"""Ops that rearrange whole axes: transpose, concatenate, split, pad, tile."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node
from tf_stitch.ir.types import Dim


@legalize("Transpose", "ConjugateTranspose")
def transpose(ctx: NodeContext) -> Node:
    return ctx.b.transpose(ctx.value(0), ctx.ints(1, "the permutation"))


@legalize("Concat")
def concat(ctx: NodeContext) -> Node:
    return _concat(ctx, ctx.values(1), 0)


@legalize("ConcatV2")
def concat_v2(ctx: NodeContext) -> Node:
    return _concat(ctx, ctx.values(0, -1), len(ctx) - 1)


def _concat(ctx: NodeContext, parts: list[Node], axis_input: int) -> Node:
    full = [p for p in parts if 0 not in p.type.shape]  # the others add nothing
    return ctx.b.concat(full or parts, ctx.axis(axis_input, parts[0].type.rank))


@legalize("Pack")
def pack(ctx: NodeContext) -> Node:
    parts = ctx.values()
    axis = ctx.attrs.integer("axis") % (parts[0].type.rank + 1)
    return ctx.b.concat([_with_axis(ctx.b, x, axis) for x in parts], axis)


def _with_axis(b: Builder, x: Node, axis: int) -> Node:
    return b.reshape(x, x.type.shape[:axis] + (1,) + x.type.shape[axis:])


def along_axis(b: Builder, x: Node, axis: int, begin: int, size: Dim) -> Node:
    """`size` elements of one axis from `begin`."""
    starts = [begin if a == axis else 0 for a in range(x.type.rank)]
    sizes = tuple(size if a == axis else d for a, d in enumerate(x.type.shape))
    return b.slice(x, starts, [1] * x.type.rank, sizes)


@legalize("Unpack")
def unpack(ctx: NodeContext) -> list[Node]:
    x = ctx.value(0)
    axis = ctx.attrs.integer("axis") % x.type.rank
    rest = x.type.shape[:axis] + x.type.shape[axis + 1:]
    return [ctx.b.reshape(along_axis(ctx.b, x, axis, i, 1), rest) for i in range(ctx.attrs.integer("num"))]


@legalize("Split")
def split(ctx: NodeContext) -> list[Node]:
    x, count = ctx.value(1), ctx.attrs.integer("num_split")
    axis = ctx.axis(0, x.type.rank)
    dim = x.type.shape[axis]
    if not isinstance(dim, int) or dim % count:
        raise UnsupportedError(f"{count} parts of an axis of size {dim}")
    return _split(ctx, x, axis, [dim // count] * count)


@legalize("SplitV")
def split_v(ctx: NodeContext) -> list[Node]:
    x, sizes = ctx.value(0), list(ctx.ints(1, "the sizes"))
    axis = ctx.axis(2, x.type.rank)
    if -1 in sizes:
        dim = x.type.shape[axis]
        if not isinstance(dim, int):
            raise UnsupportedError("the axis has a size that is decided at run time")
        sizes[sizes.index(-1)] = dim - sum(s for s in sizes if s >= 0)
    x = ctx.fitted(x, (*x.type.shape[:axis], sum(sizes), *x.type.shape[axis + 1:]))
    return _split(ctx, x, axis, sizes)


def _split(ctx: NodeContext, x: Node, axis: int, sizes: Sequence[int]) -> list[Node]:
    if len(sizes) == 1:
        return [x]
    return [along_axis(ctx.b, x, axis, sum(sizes[:i]), size) for i, size in enumerate(sizes)]


@legalize("Pad", "PadV2")
def pad(ctx: NodeContext) -> Node:
    x = ctx.value(0)
    paddings = ctx.ints(1, "the padding")
    value = ctx.value(2) if ctx.op == "PadV2" else ctx.b.scalar_like(0, x)
    return ctx.b.pad(x, value, paddings[0::2], paddings[1::2])


@legalize("Tile")
def tile(ctx: NodeContext) -> Node:
    """Each axis d becomes [m, d] by broadcasting, then m d by a reshape; broadcast alone where d or m is 1."""
    b, x, multiples = ctx.b, ctx.value(0), ctx.dims(1, "the multiples")
    out: Dim
    result: list[Dim] = []
    split_shape: list[Dim] = []
    wide: list[Dim] = []
    for dim, times in zip(x.type.shape, multiples, strict=True):
        if times == 1 or dim == 1:
            out = dim if times == 1 else times
            split_shape.append(dim)
            wide.append(out)
        elif isinstance(dim, int) and isinstance(times, int):
            out = dim * times
            split_shape += [1, dim]
            wide += [times, dim]
        else:
            raise UnsupportedError("repeating an axis of a size that is decided at run time")
        result.append(out)
    return b.reshape(b.broadcast(b.reshape(x, tuple(split_shape)), tuple(wide)), tuple(result))
