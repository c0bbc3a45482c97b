"""What is known of the results of TensorFlow's shape ops: one rule per op that moves elements about."""

from __future__ import annotations

import numpy as np

from tf_stitch.frontend.tensorflow.constant_arrays import constant_array
from tf_stitch.frontend.tensorflow.data_formats import other_axes, other_order
from tf_stitch.frontend.tensorflow.node_context import NodeContext, StaticValue, is_fixed
from tf_stitch.frontend.tensorflow.static_values import (
    MAX_ELEMENTS,
    Element,
    add,
    as_static,
    of_shape,
    product,
    required,
    static_rule,
)
from tf_stitch.frontend.tensorflow.strided_slice import numpy_index


@static_rule("Const")
def _const(ctx: NodeContext) -> list[StaticValue | None]:
    proto = ctx.attrs.tensor("value")
    if ctx.output_specs[0].dtype is None or not ctx.output_specs[0].dtype.is_integer:
        return [None]
    if int(np.prod([d.size for d in proto.tensor_shape.dim])) > MAX_ELEMENTS:
        return [None]
    return [as_static(constant_array(proto))]


@static_rule("Shape", "ShapeN")
def _shape(ctx: NodeContext) -> list[StaticValue | None]:
    return [of_shape(ctx.shape_of(i)) for i in range(len(ctx))]


@static_rule("VariableShape")
def _variable_shape(ctx: NodeContext) -> list[StaticValue | None]:
    return [of_shape(ctx.variable_shape(ctx.operands[0].handle))]


@static_rule("Size")
def _size(ctx: NodeContext) -> list[StaticValue | None]:
    shape = ctx.shape_of(0)
    return [None if shape is None else as_static(product(list(shape)))]


@static_rule("Rank")
def _rank(ctx: NodeContext) -> list[StaticValue | None]:
    shape = ctx.shape_of(0)
    return [None if shape is None else as_static(len(shape))]


@static_rule("Identity", "Snapshot", "StopGradient", "PreventGradient", "Enter")
def _identity(ctx: NodeContext) -> list[StaticValue | None]:
    return [ctx.static(0)]


@static_rule("Switch")
def _switch(ctx: NodeContext) -> list[StaticValue | None]:
    """Of a branch; what a loop goes round with is not known."""
    return [ctx.static(0)] * 2


@static_rule("Cast")
def _cast(ctx: NodeContext) -> list[StaticValue | None]:
    dtype = ctx.output_specs[0].dtype
    value = ctx.static(0)
    if dtype is None or not dtype.is_integer or value is None:
        return [None]
    limit = 1 << (8 * dtype.size - 1)
    fits = all(not isinstance(e, int) or -limit <= e < limit for e in value.flat)
    return [value if fits else None]


@static_rule("Reshape")
def _reshape(ctx: NodeContext) -> list[StaticValue | None]:
    return [required(ctx, 0).reshape(ctx.ints(1, "the shape"))]


@static_rule("ExpandDims")
def _expand_dims(ctx: NodeContext) -> list[StaticValue | None]:
    return [np.expand_dims(required(ctx, 0), ctx.scalar(1, "the axis"))]


@static_rule("Squeeze")
def _squeeze(ctx: NodeContext) -> list[StaticValue | None]:
    return [np.squeeze(required(ctx, 0), ctx.attrs.integers("squeeze_dims") or None)]


@static_rule("StridedSlice")
def _strided_slice(ctx: NodeContext) -> list[StaticValue | None]:
    return [np.asarray(required(ctx, 0)[numpy_index(ctx)], object)]


@static_rule("Slice")
def _slice(ctx: NodeContext) -> list[StaticValue | None]:
    begin, size = ctx.ints(1, "begin"), ctx.ints(2, "size")
    return [required(ctx, 0)[tuple(slice(b, None if s < 0 else b + s) for b, s in zip(begin, size, strict=True))]]


@static_rule("Pack")
def _pack(ctx: NodeContext) -> list[StaticValue | None]:
    dtype = ctx.output_specs[0].dtype
    if dtype is None or not dtype.is_integer:
        return [None]
    parts = [ctx.static(i) for i in range(len(ctx))]
    shapes = [ctx.shape_of(i) if p is None else p.shape for i, p in enumerate(parts)]
    if any(s is None or not all(isinstance(d, int) for d in s) for s in shapes):
        return [None]
    unknown = np.full([int(str(d)) for d in shapes[0] or ()], None, object)
    return [np.stack([unknown if p is None else p for p in parts], ctx.attrs.integer("axis"))]


@static_rule("Unpack")
def _unpack(ctx: NodeContext) -> list[StaticValue | None]:
    value = np.moveaxis(required(ctx, 0), ctx.attrs.integer("axis"), 0)
    return [np.asarray(part, object) for part in value]


@static_rule("ConcatV2")
def _concat(ctx: NodeContext) -> list[StaticValue | None]:
    axis = ctx.scalar(len(ctx) - 1, "the axis")
    parts: list[StaticValue] = []
    for i in range(len(ctx) - 1):
        value, shape = ctx.static(i), ctx.shape_of(i)
        if value is None:
            if shape is None or len(shape) != 1 or not isinstance(shape[0], int) or not _is_integer(ctx, i):
                return [None]
            value = np.full(shape[0], None, object)
        parts.append(value)
    return [np.concatenate(parts, axis)]


@static_rule("Gather", "GatherV2")
def _gather(ctx: NodeContext) -> list[StaticValue | None]:
    indices = required(ctx, 1)
    axis = ctx.scalar(2, "the axis") if ctx.op == "GatherV2" else 0
    params = required(ctx, 0)
    if not is_fixed(indices) or any(not 0 <= i < params.shape[axis] for i in indices.flat):
        return [None]
    return [np.asarray(np.take(params, indices.astype(np.int64), axis), object)]


@static_rule("Range")
def _range(ctx: NodeContext) -> list[StaticValue | None]:
    start, limit, delta = (ctx.scalar(i, "range") for i in range(3))
    if delta == 0 or abs(limit - start) // abs(delta) > MAX_ELEMENTS:
        return [None]
    return [as_static(np.arange(start, limit, delta))]


@static_rule("Fill")
def _fill(ctx: NodeContext) -> list[StaticValue | None]:
    dims = ctx.ints(0, "dims")
    if not _is_integer(ctx, 1) or int(np.prod(dims)) > MAX_ELEMENTS:
        return [None]
    return [np.full(dims, required(ctx, 1).flat[0], object)]


@static_rule("DynamicStitch", "ParallelDynamicStitch")
def _dynamic_stitch(ctx: NodeContext) -> list[StaticValue | None]:
    """Vectors only, as in the shapes of reductions with kept axes."""
    count = len(ctx) // 2
    places = [ctx.ints(i, "the indices") for i in range(count)]
    data = [required(ctx, count + i).reshape(-1) for i in range(count)]
    if any(len(p) != d.size for p, d in zip(places, data, strict=True)):
        return [None]
    out = np.full(1 + max((i for p in places for i in p), default=-1), None, object)
    for place, values in zip(places, data, strict=True):
        out[list(place)] = values
    return [out]


@static_rule("InvertPermutation")
def _invert_permutation(ctx: NodeContext) -> list[StaticValue | None]:
    return [as_static(np.argsort(ctx.ints(0, "the permutation")))]


@static_rule("DataFormatDimMap")
def _data_format_dim_map(ctx: NodeContext) -> list[StaticValue | None]:
    return [as_static(other_axes(ctx))]


@static_rule("DataFormatVecPermute")
def _data_format_vec_permute(ctx: NodeContext) -> list[StaticValue | None]:
    return [required(ctx, 0)[other_order(ctx)]]


@static_rule("Prod")
def _prod(ctx: NodeContext) -> list[StaticValue | None]:
    value = required(ctx, 0)
    axes = [a % max(value.ndim, 1) for a in ctx.ints(1, "the axes")]
    if value.ndim != 1 or axes != [0]:
        return [value if not axes else None]
    total = product(list(value))
    return [as_static([total] if ctx.attrs.flag("keep_dims") else total)]


@static_rule("ConcatOffset")
def _concat_offset(ctx: NodeContext) -> list[StaticValue | None]:
    axis = ctx.scalar(0, "the axis")
    shapes = [required(ctx, i) for i in range(1, len(ctx))]
    offset: Element = 0
    out: list[StaticValue | None] = []
    for shape in shapes:
        line = as_static([0] * shape.size)
        line[axis] = offset
        out.append(line)
        offset = add(offset, shape[axis])
    return out


@static_rule("BroadcastArgs")
def _broadcast_args(ctx: NodeContext) -> list[StaticValue | None]:
    a, b = (list(required(ctx, i)) for i in range(2))
    rank = max(len(a), len(b))
    a, b = [1] * (rank - len(a)) + a, [1] * (rank - len(b)) + b
    return [as_static([y if x == 1 else x if y == 1 or x == y or (isinstance(x, int) and y is None) else
                       y if isinstance(y, int) else None for x, y in zip(a, b, strict=True)])]


@static_rule("BroadcastGradientArgs")
def _broadcast_gradient_args(ctx: NodeContext) -> list[StaticValue | None]:
    """Axes to sum the gradients of two broadcast operands over, as TensorFlow's BCast lists them; a list is
    unknown when it depends on whether a symbol is 1. (An axis of size 1 may be missing from a list: the
    Reshape that follows the sum makes that the same.)"""
    a, b = (list(required(ctx, i)) for i in range(2))
    rank = max(len(a), len(b))
    a, b = [1] * (rank - len(a)) + a, [1] * (rank - len(b)) + b
    return [_reduced_axes(a, b), _reduced_axes(b, a)]


def _reduced_axes(own: list[Element], other: list[Element]) -> StaticValue | None:
    axes: list[Element] = []
    for axis, (mine, theirs) in enumerate(zip(own, other, strict=True)):
        if mine == 1:
            axes.append(axis)
        elif not isinstance(mine, int) and theirs != 1 and (mine is None or mine != theirs):
            return None
    return as_static(axes)


def _is_integer(ctx: NodeContext, index: int) -> bool:
    dtype = ctx.operands[index].spec.dtype
    return dtype is not None and dtype.is_integer
