"""Constants and what is made of nothing but a shape."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.constant_arrays import constant_array
from tf_stitch.frontend.tensorflow.node_context import NodeContext, is_known
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.types import Dim

MAX_CONSTANT = 65536  # elements; larger ones stay TensorFlow constants, which a region reads
MANY = 1024  # elements from which a constant is worth being said by fewer
FEWEST_POSITIONS = 16  # elements from which numbers in equal steps are computed, not looked up


@legalize("Const", weight=0)
def const(ctx: NodeContext) -> Node:
    dtype = ctx.attrs.dtype("dtype")
    array = constant_array(ctx.attrs.tensor("value"))
    if array.size > 1 and _is_splat(array):
        return ctx.b.broadcast(ctx.b.constant(array.flat[0], dtype), tuple(array.shape))
    repeated = _without_repeats(array)
    mask = _causal(ctx, repeated, dtype) if repeated.ndim >= 2 and repeated.size >= MANY else None
    if mask is not None or (repeated.size < array.size >= MANY and repeated.size <= MAX_CONSTANT):
        return ctx.b.broadcast(ctx.b.constant(repeated, dtype) if mask is None else mask, tuple(array.shape))
    positions = _positions(ctx, array, dtype)
    if positions is not None:
        return positions
    if array.size > MAX_CONSTANT:
        raise UnsupportedError(f"a constant of {array.size} elements is read, not compiled in")
    return ctx.b.constant(array, dtype)


def _without_repeats(array: NDArray[Any]) -> NDArray[Any]:
    """The first of each axis along which all are the same: [1, queries, keys] of a mask that TensorFlow's optimizer has
    made for all heads of all sequences."""
    for axis, size in enumerate(array.shape):
        if size > 1:
            first, second = array.take([0], axis), array.take([1], axis)  # settles it for most
            if _same_bits(first, second) and _same_bits(first, array):
                array = first
    return array


def _same_bits(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Of `a`, repeated where it has one of an axis, and `b`; NaN and -0.0 included."""
    bits = np.dtype(f"V{a.dtype.itemsize}")
    return bool((np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)).all())


def _causal(ctx: NodeContext, array: NDArray[Any], dtype: DType) -> Node | None:
    """Two values, one of them where a key (the last axis) is at most so far behind its query (the axis before), as a
    comparison of positions; None for other constants."""
    *leading, queries, keys = array.shape
    if any(size != 1 for size in leading):
        return None
    matrix = array.reshape(queries, keys)
    ends = np.flatnonzero(matrix[0] != matrix[0, 0])
    if not len(ends):
        return None
    ahead, low, high = int(ends[0]) - 1, matrix[0, 0], matrix[0, -1]
    seen = np.arange(keys) <= np.arange(queries)[:, None] + ahead
    if not _same_bits(matrix, np.where(seen, low, high)):
        return None
    b = ctx.b
    query, key = (b.iota(tuple(array.shape), array.ndim - 2 + i, DType.I32) for i in range(2))
    last = b.add(query, b.broadcast(b.scalar_like(ahead, query), tuple(array.shape))) if ahead else query
    kept = b.op(OpKind.LESS_EQUAL, key, last)
    if dtype is DType.BOOL:
        return kept if low else b.op(OpKind.LOGICAL_NOT, kept)
    one, other = (b.broadcast(b.constant(value, dtype), tuple(array.shape)) for value in (low, high))
    return b.select(kept, one, other)


def _positions(ctx: NodeContext, array: NDArray[Any], dtype: DType) -> Node | None:
    """Whole numbers in equal steps along the only axis; None for other constants. Of a table a GPU would read each
    element from memory that nothing else has brought into a cache."""
    if array.size < FEWEST_POSITIONS or dtype not in (DType.I32, DType.I64) or max(array.shape) != array.size:
        return None
    numbers = array.reshape(-1)
    first, step = int(numbers[0]), int(numbers[1]) - int(numbers[0])
    ends_in_range = abs(first) + abs(step) * array.size < np.iinfo(array.dtype).max
    if not step or not ends_in_range or not (numbers == first + step * np.arange(array.size, dtype=array.dtype)).all():
        return None
    b, shape = ctx.b, tuple(array.shape)
    position = b.iota(shape, array.shape.index(array.size), dtype)
    for kind, number in ((OpKind.MUL, step), (OpKind.ADD, first)):
        if number != (kind is OpKind.MUL):
            position = b.op(kind, position, b.broadcast(b.scalar_like(number, position), shape))
    return position


def _is_splat(array: NDArray[Any]) -> bool:
    """All elements have the same bits."""
    if array.strides and not any(array.strides):
        return True
    data = np.ascontiguousarray(array).reshape(-1)
    return _same_bits(data[:1], data[:64]) and _same_bits(data[:1], data)  # few settle it for most


@legalize("Fill")
def fill(ctx: NodeContext) -> Node:
    return ctx.b.broadcast(ctx.value(1), ctx.known_shape(0))


@legalize("Size", weight=0)
def size(ctx: NodeContext) -> Node:
    shape = ctx.shape_of(0)
    if shape is None:
        raise UnsupportedError("the rank of the input is unknown")
    return ctx.b.extent(shape, ctx.attrs.dtype("out_type"))


@legalize("Range")
def range_(ctx: NodeContext) -> Node:
    """start + i delta; the length from the operands if they are known, else from shape inference."""
    start, _, delta = ctx.values()
    index = ctx.b.iota((_range_size(ctx),), 0, start.type.dtype)
    return ctx.b.add(ctx.b.mul(index, delta), start)


def _range_size(ctx: NodeContext) -> Dim:
    dtype = ctx.value(0).type.dtype
    if dtype.is_float:
        start, limit, delta = (ctx.array(i, "the range").item() for i in range(3))
        return max(0, math.ceil((float(limit) - float(start)) / float(delta)))
    values = [ctx.static(i) for i in range(3)]
    known: list[Any] = [v.flat[0] if v is not None and v.size == 1 and is_known(v) else None for v in values]
    if known[0] == 0 and known[2] == 1 and known[1] is not None:
        dim: Dim = known[1] if not isinstance(known[1], int) else max(0, known[1])
        return dim
    if all(isinstance(k, int) for k in known) and known[2] != 0:
        return len(range(*known))
    shape = ctx.output_specs[0].shape
    if shape is not None and isinstance(shape[0], int):
        return shape[0]
    raise UnsupportedError("the length of the range is decided at run time")


@legalize("LinSpace")
def lin_space(ctx: NodeContext) -> Node:
    """start + i step, the last element being stop itself (sequence_ops.cc)."""
    start, stop = ctx.array(0, "the start"), ctx.array(1, "the stop")
    count = ctx.scalar(2, "the number of elements")
    if not 1 <= count <= MAX_CONSTANT:
        raise UnsupportedError(f"{count} elements")
    dtype = ctx.attrs.dtype("T")
    step = (stop - start) / dtype.numpy.type(count - 1) if count > 1 else stop * 0
    line = start + step * np.arange(count).astype(dtype.numpy)
    if count > 1:
        line[-1] = stop
    return ctx.b.constant(line, dtype)
