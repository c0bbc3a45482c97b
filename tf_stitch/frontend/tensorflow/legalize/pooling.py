"""Poolings and their gradients, of padded and strided slices: kernels compute them where they are needed.

The first of equals is what TensorFlow's kernels for GPUs give the gradient of a maximum to, and like them a maximum
passes over what is not a number. Gradients are gathered: an element sums what the windows that cover it have for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any, TypeAlias

import numpy as np

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.legalize.bias import OfImages, channel_axis, with_channels_last
from tf_stitch.frontend.tensorflow.legalize.reductions import accumulate
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.frontend.tensorflow.windows import Window, of_images, windows
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.numpy_reference import lowest
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.types import Shape

Windows: TypeAlias = dict[int, Window]
"""By axes of images [n, h, w, c] or [n, d, h, w, c]."""

MOST_TERMS = 27
"""Elements of a window that are unrolled, and windows that cover an element."""


def _windows(ctx: NodeContext, shape: Shape) -> Windows:
    """Of images [n, ..., c]."""
    rank = len(shape)
    first = 1 if channel_axis(ctx, rank) == rank - 1 else 2
    given = len(ctx) - 2 if ctx.op.endswith("V2") else None  # ksize and strides are the last two inputs
    sizes, strides = ((ctx.attrs.integers(name) if given is None else ctx.ints(given + i, name))
                      for i, name in enumerate(("ksize", "strides")))
    if not len(sizes) == len(strides) == rank:
        raise UnsupportedError(f"windows {list(sizes)} of images of {rank} axes")
    found = windows(ctx, shape[1:-1], of_images(sizes, first, "windows"), of_images(strides, first, "strides"))
    return dict(enumerate(found, 1))


def _along(values: Mapping[int, int], rank: int, other: int = 0) -> list[int]:
    """For each axis its value."""
    return [values.get(axis, other) for axis in range(rank)]


def _seen(b: Builder, x: Node, along: Windows, fill: float) -> Iterator[tuple[tuple[int, ...], Node]]:
    """For each place in a window what all windows have there."""
    rank = x.type.rank
    if any(w.low or w.high for w in along.values()):
        low, high = (_along({axis: getattr(w, side) for axis, w in along.items()}, rank) for side in ("low", "high"))
        x = b.pad(x, b.scalar_like(fill, x), low, high)
    shape = tuple(along[axis].count if axis in along else d for axis, d in enumerate(x.type.shape))
    strides = _along({axis: w.stride for axis, w in along.items()}, rank, 1)
    for place in np.ndindex(*(w.extent for w in along.values())):
        yield place, b.slice(x, _along(dict(zip(along, place, strict=True)), rank), strides, shape)


def _few(terms: int, what: str) -> None:
    if terms > MOST_TERMS:
        raise UnsupportedError(f"{terms} {what}")


def _largest(b: Builder, x: Node, along: Windows) -> tuple[Node, Node]:
    """The largest element of each window, and its place there: the first of equals."""
    _few(prod(w.extent for w in along.values()), "elements that a maximum is of")
    least = lowest(x.type.dtype.numpy, True)
    largest, at = b.scalar_like(least, x), b.constant(0, DType.I32)
    for place, piece in _seen(b, x, along, least):
        better = b.op(K.GREATER, piece, largest)
        largest = b.select(better, piece, largest)
        at = b.select(better, b.constant(_number(place), DType.I32), at)
    return largest, at


def _number(place: Sequence[Any]) -> Any:
    """Of a place in a window; no other place has it, nor one outside."""
    return reduce(lambda number, along: number * 4 * MOST_TERMS + along, place)


def _spread(b: Builder, grad: Node, along: Windows, places: Node | None = None) -> Node:
    """For each element the sum of the gradients of all windows that cover it.

    Args:
        places: the place in a window that has its gradient; all have it by default.
    """
    shape, zero = grad.type.shape, b.scalar_like(0, grad)
    rank = len(shape)
    turns = {axis: -(-w.extent // w.stride) for axis, w in along.items()}  # windows that cover an element
    _few(prod(turns.values()), "windows that cover an element")

    def repeated(x: Node, times: Mapping[int, int]) -> Node:
        """Each element so often in a row, on an axis of its own."""
        one, many = (tuple(n for axis, d in enumerate(shape) for n in ((d, r[axis]) if axis in along else (d,)))
                     for r in (dict.fromkeys(times, 1), times))
        return b.broadcast(b.reshape(x, one), many)

    def covered(turn: Mapping[int, int]) -> Node:
        """What the elements of each stride have from the window that began `turn` strides before."""
        reached = {axis: min(w.stride, w.extent - turn[axis] * w.stride) for axis, w in along.items()}
        part = repeated(grad, reached)
        within = {axis + 1 + i: reached[axis] for i, axis in enumerate(along)}  # the axes of the repeated ones
        if places is not None:
            own = _number([(np.arange(reached[axis], dtype=np.int32) + turn[axis] * w.stride).reshape(
                _along({other: reached[axis]}, part.type.rank, 1)) for other, (axis, w) in
                zip(within, along.items(), strict=True)])
            part = b.select(b.op(K.EQUAL, repeated(places, reached), b.constant(own, DType.I32)), part, zero)
        missing = {other: w.stride - within[other] for other, w in zip(within, along.values(), strict=True)}
        if any(missing.values()):
            part = b.pad(part, zero, _along({}, part.type.rank), _along(missing, part.type.rank))
        lengths = {axis: w.count * w.stride for axis, w in along.items()}
        part = b.reshape(part, tuple(lengths.get(axis, d) for axis, d in enumerate(shape)))
        low = {axis: turn[axis] * w.stride for axis, w in along.items()}
        high = {axis: (turns[axis] - 1 - turn[axis]) * w.stride for axis, w in along.items()}
        return b.pad(part, zero, _along(low, rank), _along(high, rank)) if max(turns.values()) > 1 else part

    padded = reduce(b.add, (covered(dict(zip(along, turn, strict=True))) for turn in np.ndindex(*turns.values())))
    behind = {axis: max(w.low + w.size - (w.count + turns[axis] - 1) * w.stride, 0) for axis, w in along.items()}
    if any(behind.values()):
        padded = b.pad(padded, zero, _along({}, rank), _along(behind, rank))
    sizes = tuple(along[axis].size if axis in along else d for axis, d in enumerate(shape))
    if padded.type.shape == sizes:
        return padded
    return b.slice(padded, _along({axis: w.low for axis, w in along.items()}, rank), (1,) * rank, sizes)


def _max_pool(ctx: NodeContext, images: list[Node]) -> Node:
    """As its gradient computes it again, so that both are one; axis by axis where windows are larger."""
    [x] = images
    along = _windows(ctx, x.type.shape)
    if prod(w.extent for w in along.values()) <= MOST_TERMS:
        return _largest(ctx.b, x, along)[0]
    for axis, window in reversed(along.items()):
        if window.whole:
            x = ctx.b.reduce(K.MAX, x, [axis], keepdims=True)
        else:
            x, _ = _largest(ctx.b, x, {axis: window})
    return x


def _max_pool_grad(ctx: NodeContext, images: list[Node]) -> Node:
    """Of input, result and the result's gradient."""
    x, _, grad = images
    along = _windows(ctx, x.type.shape)
    largest, places = _largest(ctx.b, x, along)
    return _spread(ctx.b, ctx.fitted(grad, largest.type.shape), along, places)


def _avg_pool(ctx: NodeContext, images: list[Node]) -> Node:
    [x] = images
    b, dtype = ctx.b, x.type.dtype
    along = _windows(ctx, x.type.shape)
    x = accumulate(b, x)
    for axis, window in reversed(along.items()):
        if window.whole:
            x = b.sum(x, [axis], keepdims=True)
        else:
            _few(window.extent, "elements of an axis that a mean is of")
            x = reduce(b.add, (piece for _, piece in _seen(b, x, {axis: window}, 0)))
    return b.cast(_by_counts(b, x, along.values()), dtype)


def _by_counts(b: Builder, x: Node, along: Iterable[Window]) -> Node:
    """x [n, ..., c], divided by how many elements of the image each window has."""
    counts = np.ones(())
    for window in along:
        begins = np.arange(window.count) * window.stride - window.low
        inside = np.minimum(begins + window.extent, window.size) - np.maximum(begins, 0)
        counts = counts[..., None] * inside
    if (counts == counts.flat[0]).all():
        return b.div(x, b.scalar_like(float(counts.flat[0]), x))
    return b.div(x, b.constant(counts[..., None], x.type.dtype))


def _avg_pool_grad(ctx: NodeContext, images: list[Node]) -> Node:
    """Of the input's shape and the result's gradient."""
    [grad] = images
    b, dtype, rank = ctx.b, grad.type.dtype, grad.type.rank
    shape = ctx.dims(0, "the size of the images")
    if len(shape) != rank:
        raise UnsupportedError(f"the gradient of images of {len(shape)} axes")
    along = _windows(ctx, shape if channel_axis(ctx, rank) == rank - 1 else (shape[0], *shape[2:], shape[1]))
    grad = ctx.fitted(grad, (grad.type.shape[0], *(w.count for w in along.values()), grad.type.shape[-1]))
    grad = _by_counts(b, accumulate(b, grad), along.values())
    for axis, window in along.items():
        if window.whole:
            grad = b.broadcast(grad, tuple(window.size if a == axis else d for a, d in enumerate(grad.type.shape)))
        else:
            grad = _spread(b, grad, {axis: window})
    return b.cast(grad, dtype)


def _of_numbers(function: OfImages) -> OfImages:
    def pooled(ctx: NodeContext, images: list[Node]) -> Node:
        if images[0].type.dtype is DType.BOOL:
            raise UnsupportedError(f"a pooling of {images[0].type}")
        return function(ctx, images)

    return pooled


for ops, function, inputs in ((("MaxPool", "MaxPoolV2", "MaxPool3D"), _max_pool, (0,)),
                              (("MaxPoolGrad", "MaxPoolGradV2", "MaxPool3DGrad"), _max_pool_grad, (0, 1, 2)),
                              (("AvgPool", "AvgPool3D"), _avg_pool, (0,)),
                              (("AvgPoolGrad", "AvgPool3DGrad"), _avg_pool_grad, (1,))):
    legalize(*ops, library=True, convolution=True)(with_channels_last(_of_numbers(function), *inputs))
