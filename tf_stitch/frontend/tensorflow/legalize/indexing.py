"""Slices, and look-ups by index."""

from __future__ import annotations

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.legalize.dynamic_slices import element, has_to_be_within, sliced_at, take
from tf_stitch.frontend.tensorflow.legalize.row_indices import row_of
from tf_stitch.frontend.tensorflow.node_context import NodeContext, is_fixed
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.frontend.tensorflow.strided_slice import slice_plan
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.types import Dim, Shape


@legalize("Slice")
def slice_(ctx: NodeContext) -> Node:
    x, begin, asked = ctx.value(0), ctx.static(1), ctx.static(2)
    fixed = [None] * x.type.rank if begin is None else list(begin.flat)
    sizes: list[Dim] = []
    for axis, dim in enumerate(x.type.shape):
        size = None if asked is None else asked.flat[axis]
        if size == -1:
            first = fixed[axis]
            size = (None if not isinstance(first, int) else dim - first if isinstance(dim, int)
                    else dim if first == 0 else None)
        inferred = ctx.output_specs[0].shape
        if size is None and inferred is not None and isinstance(inferred[axis], int):
            size = inferred[axis]
        if size is None:
            raise UnsupportedError("the size of the slice is decided at run time")
        sizes.append(size)
    if begin is None or not is_fixed(begin):
        return sliced_at(ctx, x, fixed, tuple(sizes))
    return ctx.b.slice(x, ctx.ints(1, "the begin of the slice"), [1] * x.type.rank, tuple(sizes))


@legalize("StridedSlice")
def strided_slice(ctx: NodeContext) -> Node:
    x = ctx.value(0)
    plan = slice_plan(ctx, x.type.shape)
    sliced = x if plan.sizes == x.type.shape and set(plan.strides) <= {1} else ctx.b.slice(
        x, plan.begin, plan.strides, plan.sizes)
    for axis, entry in plan.read:
        dim = sliced.type.shape[axis]
        index = _from_the_start(ctx.b, element(ctx.b, ctx.value(1), entry), dim)
        has_to_be_within(ctx, 1, index, 1, dim)
        sliced = take(ctx.b, sliced, axis, index)
    return ctx.b.reshape(sliced, plan.shape)


def _from_the_start(b: Builder, index: Node, dim: Dim) -> Node:
    """An index that counts from the end if it is negative."""
    size = b.extent((dim,), index.type.dtype)
    return b.select(b.op(K.LESS, index, b.scalar_like(0, index)), b.add(index, size), index)


@legalize("StridedSliceGrad")
def strided_slice_grad(ctx: NodeContext) -> Node:
    """Zeros of the sliced tensor's shape with dy where the slice took its elements: a pad, after gaps of
    zeros between the elements of axes with a stride."""
    shape = ctx.known_shape(0)
    plan = slice_plan(ctx, shape, first=1)
    if plan.read:
        raise UnsupportedError("the bounds of the slice are decided at run time")
    dy = ctx.b.reshape(ctx.value(4), plan.sizes)
    low = list(plan.begin)
    high = [0] * len(shape)
    for axis, (dim, size, stride) in enumerate(zip(shape, plan.sizes, plan.strides, strict=True)):
        if dim == size and stride == 1:
            continue
        if not isinstance(dim, int) or not isinstance(size, int):
            raise UnsupportedError("padding of an axis of a size that is decided at run time")
        if stride < 0:
            raise UnsupportedError("a negative stride")
        extent = size if stride == 1 or size == 0 else (size - 1) * stride + 1
        dy = _dilate(ctx.b, dy, axis, stride, extent) if extent != size else dy
        high[axis] = dim - low[axis] - extent
    if not any(low) and not any(high):
        return dy
    return ctx.b.pad(dy, ctx.b.scalar_like(0, dy), low, high)


def _dilate(b: Builder, x: Node, axis: int, stride: int, extent: int) -> Node:
    """Puts stride - 1 zeros between the elements of an axis; `extent` is the size that gives."""
    shape = x.type.shape
    rank = len(shape) + 1
    size = shape[axis]
    assert isinstance(size, int)
    spread = b.reshape(x, shape[:axis + 1] + (1,) + shape[axis + 1:])
    spread = b.pad(spread, b.scalar_like(0, x), [0] * rank, [stride - 1 if a == axis + 1 else 0 for a in range(rank)])
    flat = b.reshape(spread, shape[:axis] + (size * stride,) + shape[axis + 1:])
    return b.slice(flat, [0] * (rank - 1), [1] * (rank - 1), shape[:axis] + (extent,) + shape[axis + 1:])


@legalize("Gather")
def gather(ctx: NodeContext) -> Node:
    return ctx.b.op(K.GATHER, ctx.value(0), ctx.value(1))


@legalize("GatherV2")
def gather_v2(ctx: NodeContext) -> Node:
    """The gathered axis goes to the front, where the IR gathers, and its indices back to where it was."""
    params = ctx.value(0)
    return _gathered(ctx, params, ctx.axis(2, params.type.rank), ctx.attrs.integer("batch_dims"))


@legalize("ResourceGather")
def resource_gather(ctx: NodeContext) -> Node:
    """Rows of a variable, of which the others are not touched."""
    batch = ctx.attrs.integer("batch_dims")
    return _gathered(ctx, ctx.read(0), batch, batch)


def _gathered(ctx: NodeContext, params: Node, axis: int, batch: int) -> Node:
    b, indices, rank = ctx.b, ctx.value(1), params.type.rank
    if batch:
        batch += indices.type.rank if batch < 0 else 0
        return _gathered_in_batches(ctx, params, indices, axis, batch)
    gathered = b.op(K.GATHER, b.transpose(params, [axis] + [a for a in range(rank) if a != axis]), indices)
    own = list(range(indices.type.rank))
    rest = list(range(len(own), gathered.type.rank))
    return b.transpose(gathered, rest[:axis] + own + rest[axis:])


def _gathered_in_batches(ctx: NodeContext, params: Node, indices: Node, axis: int, batch: int) -> Node:
    """Each batch by its own indices: the batch is another index, of the axes before."""
    b, rank = ctx.b, params.type.rank
    if not 0 <= batch <= min(axis, indices.type.rank):
        raise UnsupportedError(f"axis {axis} of {batch} batch dimensions: an error at run time")
    outer = [a for a in range(rank) if batch <= a < axis]
    moved = b.transpose(params, [*range(batch), axis, *outer, *range(axis + 1, rank)])
    batches, rest = moved.type.shape[:batch], moved.type.shape[batch + 1:]
    indices = ctx.fitted(indices, (*batches, *indices.type.shape[batch:]))
    n, many = ctx.product(indices.type.shape, "indices"), ctx.product(batches, "batches")
    positions = b.positions(batches, indices.type.dtype)
    positions = b.broadcast(b.reshape(positions, (*batches, *[1] * (indices.type.rank - batch))), indices.type.shape)
    pairs = b.concat([b.reshape(x, (n, 1)) for x in (positions, indices)], 1)
    axes = (many, params.type.shape[axis])
    flat = b.reshape(moved, (ctx.product(axes, "rows"), *rest))
    gathered = b.reshape(b.op(K.GATHER, flat, row_of(ctx, pairs, axes)), (*indices.type.shape, *rest))
    own = list(range(batch, indices.type.rank))
    after = list(range(indices.type.rank, gathered.type.rank))
    return b.transpose(gathered, [*range(batch), *after[:len(outer)], *own, *after[len(outer):]])


@legalize("GatherNd")
def gather_nd(ctx: NodeContext) -> Node:
    return _gathered_by_several(ctx, ctx.value(0))


@legalize("ResourceGatherNd")
def resource_gather_nd(ctx: NodeContext) -> Node:
    return _gathered_by_several(ctx, ctx.read(0))


def _gathered_by_several(ctx: NodeContext, params: Node) -> Node:
    b, indices = ctx.b, ctx.value(1)
    *batch, depth = indices.type.shape or (0,)
    if not isinstance(depth, int) or not 0 < depth <= params.type.rank:
        raise UnsupportedError(f"{ctx.op} by {depth} indices each")
    axes, rest = params.type.shape[:depth], params.type.shape[depth:]
    rows = row_of(ctx, b.reshape(indices, (ctx.product(batch, "indices"), depth)), axes)
    gathered = b.op(K.GATHER, b.reshape(params, (ctx.product(axes, "rows"), *rest)), rows)
    return b.reshape(gathered, (*batch, *rest))


@legalize("MatrixBandPart")
def matrix_band_part(ctx: NodeContext) -> Node:
    """Element [m, n] of each matrix where m - n <= lower and n - m <= upper (a negative bound is none), else 0. A bound
    beyond the matrix is an error."""
    b, x = ctx.b, ctx.value(0)
    lower, upper = ctx.scalar(1, "the lower bound"), ctx.scalar(2, "the upper bound")
    for bound, size in zip((lower, upper), x.type.shape[-2:], strict=True):
        if bound > 0 and (not isinstance(size, int) or bound > size):
            raise UnsupportedError(f"{ctx.op}: a bound of {bound} in {size} must raise at run time if it is beyond")
    row, column = (b.iota((d, 1) if axis == 0 else (1, d), axis, DType.I64) for axis, d in enumerate(x.type.shape[-2:]))
    below = b.sub(row, column)
    for distance, bound in ((below, lower), (b.neg(below), upper)):
        if bound >= 0:
            inside = b.op(K.LESS_EQUAL, distance, b.scalar_like(bound, distance))
            x = b.select(inside, x, b.scalar_like(0, x))
    return x


@legalize("OneHot")
def one_hot(ctx: NodeContext) -> Node:
    """on where the position along the new axis is the index, else off; an index outside has no on."""
    b, indices = ctx.b, ctx.value(0)
    depth = ctx.dim(1, "the depth")
    rank = indices.type.rank + 1
    axis, = ctx.axes(ctx.attrs.integer("axis"), rank=rank)
    own = indices.type.shape
    positions: Shape = tuple(depth if a == axis else 1 for a in range(rank))
    expanded = b.reshape(indices, own[:axis] + (1,) + own[axis:])
    hit = b.op(K.EQUAL, expanded, b.iota(positions, axis, indices.type.dtype))
    return b.select(hit, ctx.value(2), ctx.value(3))
