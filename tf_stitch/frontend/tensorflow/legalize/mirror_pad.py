"""Padding by what lies at the edges, read backwards: of one axis after the other, joined from slices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.legalize.movement import along_axis
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node


class _Edges(NamedTuple):
    """What is added to an axis of `size` elements.

    Attributes:
        skipped: elements at the edge that are not repeated: one of REFLECT, none of SYMMETRIC.
    """

    axis: int
    size: int
    low: int
    high: int
    skipped: int


@legalize("MirrorPad")
def mirror_pad(ctx: NodeContext) -> Node:
    b, x = ctx.b, ctx.value(0)
    for axis, size, low, high, skipped in _edges(ctx, x, padded=False):
        parts = [x]
        if low:
            parts.insert(0, _backwards(b, x, axis, low - 1 + skipped, low))
        if high:
            parts.append(_backwards(b, x, axis, size - 1 - skipped, high))
        x = b.concat(parts, axis)
    return x


@legalize("MirrorPadGrad")
def mirror_pad_grad(ctx: NodeContext) -> Node:
    """Each element gets the gradients of all its copies."""
    b, x = ctx.b, ctx.value(0)
    for axis, size, low, high, skipped in _edges(ctx, x, padded=True):
        total = along_axis(b, x, axis, low, size)
        for last, count, first in ((low - 1, low, skipped), (low + size + high - 1, high, size - skipped - high)):
            if count:
                total = b.add(total, _placed(b, _backwards(b, x, axis, last, count), axis, first, size))
        x = total
    return x


def _edges(ctx: NodeContext, x: Node, padded: bool) -> Iterator[_Edges]:
    """Of the axes that are padded.

    Args:
        padded: `x` has the padding already.
    """
    skipped = 1 if ctx.attrs.string("mode") == "REFLECT" else 0
    paddings = ctx.ints(1, "the padding")
    for axis, (low, high) in enumerate(zip(paddings[0::2], paddings[1::2], strict=True)):
        if not low and not high:
            continue
        whole = x.type.shape[axis]
        if not isinstance(whole, int):
            raise UnsupportedError("mirroring an axis of a size that is decided at run time")
        size = whole - low - high if padded else whole
        if max(low, high) > size - skipped:  # TensorFlow says so
            raise UnsupportedError("more padding than there is to mirror")
        yield _Edges(axis, size, low, high, skipped)


def _backwards(b: Builder, x: Node, axis: int, last: int, count: int) -> Node:
    """`count` elements of an axis, from `last` down."""
    begin = [last if a == axis else 0 for a in range(x.type.rank)]
    strides = [-1 if a == axis else 1 for a in range(x.type.rank)]
    return b.slice(x, begin, strides, tuple(count if a == axis else d for a, d in enumerate(x.type.shape)))


def _placed(b: Builder, x: Node, axis: int, first: int, size: int) -> Node:
    """Elements of an axis among zeros, from `first` on."""
    count = x.type.shape[axis]
    assert isinstance(count, int)
    low, high = ([amount if a == axis else 0 for a in range(x.type.rank)] for amount in (first, size - first - count))
    return b.pad(x, b.scalar_like(0, x), low, high)
