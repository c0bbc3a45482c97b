"""Images of another size, from their nearest pixels or between the four around (tensorflow/core/kernels/image/
resize_bilinear_op.cc, resize_nearest_neighbor_op.cc, image_resizer_state.h). Gradients are gathered: a pixel sums what
those that were made of it have for it, along one axis, then along the other. One pixel along an axis is broadcast, and
its gradient is a sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.legalize.blocks import known_sizes
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K

Numbers: TypeAlias = NDArray[np.int32]
Weights: TypeAlias = NDArray[np.float32]

MOST_TERMS = 32
"""Pixels along one axis that were made of one: of those a kernel computes all."""
MOST_NUMBERS = 4096
"""Of a table: they stand in the kernel."""


@dataclass(frozen=True)
class _Axis:
    """Pixels of one axis: what each of the new ones is made of."""

    low: Numbers
    high: Numbers
    share: Weights
    """Of the higher one."""


@legalize("ResizeNearestNeighbor")
def nearest(ctx: NodeContext) -> Node:
    x = ctx.value(0)
    rows, columns = (_nearest(ctx, d, n) for d, n in zip(_sizes(x), _gathered(ctx, x), strict=True))
    return _broadcast(ctx, _pixels(ctx, x, rows, columns))


@legalize("ResizeBilinear")
def bilinear(ctx: NodeContext) -> Node:
    x = ctx.b.cast(ctx.value(0), DType.F32)
    if _sizes(x) == _wanted(ctx):
        return x
    rows, columns = (_between(ctx, d, n) for d, n in zip(_sizes(x), _gathered(ctx, x), strict=True))
    b = ctx.b
    across, down = (_table(b, a.share.reshape(shape), DType.F32)
                    for a, shape in ((columns, (-1, 1)), (rows, (-1, 1, 1))))
    top, bottom = (_blend(b, _pixels(ctx, x, at, columns.low), _pixels(ctx, x, at, columns.high), across)
                   for at in (rows.low, rows.high))
    return _broadcast(ctx, _blend(b, top, bottom, down))


@legalize("ResizeNearestNeighborGrad")
def nearest_gradient(ctx: NodeContext) -> Node:
    dy = ctx.value(0)
    wide = ctx.b.cast(dy, dy.type.dtype.compute)
    for axis, size, now in zip((2, 1), reversed(_wanted(ctx)), reversed(_sizes(dy)), strict=True):
        at = _nearest(ctx, size, now)
        wide = _collected(ctx, wide, axis, [(at, np.ones(now, np.float32))], size)
    return ctx.b.cast(wide, dy.type.dtype)


@legalize("ResizeBilinearGrad")
def bilinear_gradient(ctx: NodeContext) -> Node:
    dy, image = ctx.value(0), ctx.value(1)
    dtype = image.type.dtype
    if dtype is DType.F64:
        raise UnsupportedError("the gradient of a float64 image between pixels, of shares that are float32")
    if _sizes(dy) == _sizes(image):
        return ctx.b.cast(dy, dtype)
    dy = ctx.b.cast(dy, dtype.compute)
    for axis, size, now in zip((2, 1), reversed(_sizes(image)), reversed(_sizes(dy)), strict=True):
        a = _between(ctx, size, now)
        dy = _collected(ctx, dy, axis, [(a.low, 1 - a.share), (a.high, a.share)], size)
    return ctx.b.cast(dy, dtype)


def _blend(b: Builder, x: Node, y: Node, share: Node) -> Node:
    return b.add(x, b.mul(b.sub(y, x), share))


def _sizes(x: Node) -> tuple[int, int]:
    """Height and width."""
    height, width = known_sizes(x.type.shape[1:3])
    return height, width


def _wanted(ctx: NodeContext) -> tuple[int, int]:
    height, width = ctx.ints(1, "the size of the image")
    return height, width


def _gathered(ctx: NodeContext, x: Node) -> tuple[int, int]:
    """The wanted height and width, but 1 where one pixel is broadcast."""
    height, width = (1 if now == 1 else size for now, size in zip(_sizes(x), _wanted(ctx), strict=True))
    return height, width


def _broadcast(ctx: NodeContext, x: Node) -> Node:
    batch, *_, channels = x.type.shape
    return ctx.b.broadcast(x, (batch, *_wanted(ctx), channels))


def _scale(ctx: NodeContext, before: int, after: int) -> np.float32:
    """Pixels for one of the new ones."""
    if ctx.attrs.flag("align_corners") and after > 1:
        return np.float32(np.float32(before - 1) / np.float32(after - 1))
    return np.float32(np.float32(before) / np.float32(after))


def _nearest(ctx: NodeContext, before: int, after: int) -> Numbers:
    at, scale = np.arange(after, dtype=np.float32), _scale(ctx, before, after)
    if ctx.attrs.flag("half_pixel_centers"):
        at = np.floor((at + np.float32(0.5)) * scale)
    else:
        at = _round(at * scale) if ctx.attrs.flag("align_corners") else np.floor(at * scale)
    return np.clip(at.astype(np.int32), 0, before - 1)


def _round(x: NDArray[Any]) -> NDArray[Any]:
    """Halves away from zero, as C's roundf."""
    return np.floor(x + np.float32(0.5))


def _between(ctx: NodeContext, before: int, after: int) -> _Axis:
    at, scale = np.arange(after, dtype=np.float32), _scale(ctx, before, after)
    at = (at + np.float32(0.5)) * scale - np.float32(0.5) if ctx.attrs.flag("half_pixel_centers") else at * scale
    down = np.floor(at)
    high = np.minimum(np.ceil(at).astype(np.int32), before - 1)
    return _Axis(np.minimum(np.maximum(down.astype(np.int32), 0), high), high, at - down)


def _pixels(ctx: NodeContext, x: Node, rows: Numbers, columns: Numbers) -> Node:
    """x[:, rows][:, :, columns] of [n, h, w, c]."""
    return _look_up(ctx, x, rows[:, None], columns)


def _collected(ctx: NodeContext, dy: Node, axis: int, parts: list[tuple[Numbers, Weights]], size: int) -> Node:
    """What pixels of an axis [1, h] or [2, w] get of those made of them.

    Args:
        parts: of each of those, a pixel that it was made of, and its share; shares in one add up to 1.

    Raises:
        UnsupportedError: one of several pixels became too many.
    """
    if size == 1:
        return ctx.b.sum(dy, [axis], keepdims=True)
    takers: list[list[tuple[int, float]]] = [[] for _ in range(size)]
    for numbers, shares in parts:
        for taker, (number, share) in enumerate(zip(numbers, shares, strict=True)):
            if share:
                takers[number].append((taker, float(share)))
    most = max([1, *map(len, takers)])
    if most > MOST_TERMS:
        raise UnsupportedError(f"one pixel became {most} along an axis")
    padded = [[*each, *[(0, 0.0)] * (most - len(each))] for each in takers]
    at = np.array([[number for number, _ in each] for each in padded], np.int32).reshape(size, most)
    weights = np.array([[share for _, share in each] for each in padded], np.float32)
    height, width = (np.arange(d, dtype=np.int32) for d in _sizes(dy))
    places = (at[:, :, None], width) if axis == 1 else (height[:, None, None], at)
    values = _look_up(ctx, dy, *places)
    weight = _table(ctx.b, weights.reshape(size, most, *[1] * (3 - axis)), values.type.dtype)
    return ctx.b.sum(ctx.b.mul(values, weight), [axis + 1])


def _look_up(ctx: NodeContext, x: Node, rows: Numbers, columns: Numbers) -> Node:
    """[n, *places, c] of [n, h, w, c], at rows and columns that are broadcast to each other."""
    b, (batch, *_, channels), (height, width) = ctx.b, x.type.shape, _sizes(x)
    count = ctx.product([batch, height * width], f"by_{height * width}")
    index = DType.I32 if isinstance(count, int) and count < 1 << 31 else DType.I64
    places = b.add(b.mul(_table(b, rows, index), b.constant(width, index)), _table(b, columns, index))
    first = b.mul(b.iota((batch, *[1] * places.type.rank), 0, index), b.constant(height * width, index))
    return b.op(K.GATHER, b.reshape(x, (count, channels)), b.add(first, places))


def _table(b: Builder, numbers: NDArray[Any], dtype: DType) -> Node:
    if numbers.size > MOST_NUMBERS:
        raise UnsupportedError(f"a table of {numbers.size} numbers")
    return b.constant(numbers, dtype)
