"""Rows that are combined by index: segment reductions, and tensors that others are scattered to.

What TensorFlow's CPU kernels refuse fails here, too; its GPU kernels leave out what has no row, and so do ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import ml_dtypes
import numpy as np
from tensorflow.python.framework.config import is_op_determinism_enabled

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.legalize.row_indices import row_of
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import Combine
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.types import Dim, Shape


def _refuse_any_order(ctx: NodeContext, dtype: DType, combine: Combine) -> None:
    ordered = (dtype.is_float and combine in (Combine.SUM, Combine.PROD)) or combine is Combine.SET
    if ordered and ctx.on_gpu and is_op_determinism_enabled():
        raise UnsupportedError(f"{ctx.op} adds in any order, and TensorFlow has to be deterministic")


def _refuse_unknown(ctx: NodeContext, rows: Dim) -> None:
    """A kernel that deals rows out to tasks has to know them, or a region would be built again for each length."""
    if not isinstance(rows, int):
        raise UnsupportedError(f"{ctx.op} scatters to rows whose number is decided at run time")


def _lowest(dtype: DType) -> float | int:
    """What the maximum of no element is: finite."""
    if dtype.is_float:
        return float(ml_dtypes.finfo(dtype.numpy).min)  # type: ignore[no-untyped-call]
    return int(np.iinfo(dtype.value).min)


def _highest(dtype: DType) -> float | int:
    return -_lowest(dtype) if dtype.is_float else int(np.iinfo(dtype.value).max)


@legalize("UnsortedSegmentSum")
def unsorted_segment_sum(ctx: NodeContext) -> Node:
    return _segments(ctx, Combine.SUM, 0)


@legalize("UnsortedSegmentProd")
def unsorted_segment_prod(ctx: NodeContext) -> Node:
    return _segments(ctx, Combine.PROD, 1)


@legalize("UnsortedSegmentMax")
def unsorted_segment_max(ctx: NodeContext) -> Node:
    return _segments(ctx, Combine.MAX, _lowest(ctx.value(0).type.dtype))


@legalize("UnsortedSegmentMin")
def unsorted_segment_min(ctx: NodeContext) -> Node:
    return _segments(ctx, Combine.MIN, _highest(ctx.value(0).type.dtype))


def _segments(ctx: NodeContext, combine: Combine, first: float) -> Node:
    """Data go to the rows that ids say; those of negative ids nowhere."""
    b, data, ids = ctx.b, ctx.value(0), ctx.value(1)
    _refuse_any_order(ctx, data.type.dtype, combine)
    segments = ctx.dim(2, "the number of segments")
    _refuse_unknown(ctx, segments)
    if isinstance(segments, int) and segments < 0:
        raise UnsupportedError(f"{segments} segments: an error at run time")
    rank = ids.type.rank
    rest = data.type.shape[rank:]
    data = ctx.fitted(data, (*ids.type.shape, *rest))
    n = ctx.product(ids.type.shape, "ids")
    return b.scatter(b.scalar_like(first, data), b.reshape(ids, (n,)), b.reshape(data, (n, *rest)),
                     (segments, *rest), combine, updates_first=True)


@legalize("Bincount")
def bincount(ctx: NodeContext) -> Node:
    """Counts all elements, whatever their axes."""
    return _counts(ctx, (), Combine.SUM)


@legalize("DenseBincount")
def dense_bincount(ctx: NodeContext) -> Node:
    """A matrix is counted row by row."""
    shape = ctx.value(0).type.shape
    combine = Combine.MAX if ctx.attrs.flag("binary_output") else Combine.SUM
    return _counts(ctx, shape[:1] if len(shape) == 2 else (), combine)


def _counts(ctx: NodeContext, batch: Shape, combine: Combine) -> Node:
    """How often each whole number below `size` occurs, or the sum of its weights; MAX: whether it does. Larger ones
    count nowhere; negative ones are an error on a CPU."""
    b, values, weights = ctx.b, ctx.value(0), ctx.value(2)
    size = ctx.dim(1, "the size of a bincount")
    counts = (*batch, size)
    rows, n = ctx.product(counts, "rows"), ctx.product(values.type.shape, "values")
    _refuse_unknown(ctx, rows)
    assert isinstance(size, int)
    assert isinstance(rows, int)
    if size < 0:
        raise UnsupportedError(f"{size} for the size of a bincount: an error at run time")
    if combine is Combine.MAX or weights.type.shape == (0,):
        weights = b.broadcast(b.scalar_like(1, weights), values.type.shape)
    _refuse_any_order(ctx, weights.type.dtype, combine)
    behind, nowhere = b.scalar_like(rows, values), b.scalar_like(-1, values)
    row = values
    if batch:
        first = b.iota(values.type.shape, 0, values.type.dtype)
        row = b.add(b.mul(first, b.scalar_like(size, first)), values)
    row = b.select(b.op(K.GREATER_EQUAL, values, b.scalar_like(size, values)), nowhere, row)
    row = b.select(b.op(K.LESS, values, b.scalar_like(0, values)), behind, row)
    weights = ctx.fitted(weights, values.type.shape)
    counted = b.scatter(b.scalar_like(0, weights), b.reshape(row, (n,)), b.reshape(weights, (n,)), (rows,), combine,
                        updates_first=True)
    return b.reshape(counted, counts)


@legalize("ScatterNd")
def scatter_nd(ctx: NodeContext) -> Node:
    updates = ctx.value(1)
    return _scattered(ctx, ctx.b.scalar_like(0, updates), 0, updates, ctx.known_shape(2), Combine.SUM)


def _to_tensor(ctx: NodeContext, combine: Combine, negated: bool) -> Node:
    return _scattered(ctx, ctx.value(0), 1, _updates(ctx, negated), ctx.value(0).type.shape, combine)


def _updates(ctx: NodeContext, negated: bool) -> Node:
    """Input 2; what is subtracted is added negated."""
    return ctx.b.neg(ctx.value(2)) if negated else ctx.value(2)


def _scattered(ctx: NodeContext, before: Node, at: int, updates: Node, shape: Shape, combine: Combine) -> Node:
    """Updates [..., rest] by indices [..., k], input `at`, of the first k axes: as rows of the tensor with these axes
    made one."""
    b, indices = ctx.b, ctx.value(at)
    _refuse_any_order(ctx, updates.type.dtype, combine)
    *batch, depth = indices.type.shape or (0,)
    if not isinstance(depth, int) or not 0 < depth <= len(shape):
        raise UnsupportedError(f"{ctx.op} by {depth} indices each")
    outer, rest = shape[:depth], shape[depth:]
    n, rows = ctx.product(batch, "updates"), ctx.product(outer, "rows")
    _refuse_unknown(ctx, rows)
    updates = ctx.fitted(updates, (*batch, *rest))
    row = row_of(ctx, b.reshape(indices, (n, depth)), outer)
    result = b.scatter(b.reshape(before, (rows, *rest)) if before.type.rank else before, row,
                       b.reshape(updates, (n, *rest)), (rows, *rest), combine)
    return b.reshape(result, shape)


def _to_variable(ctx: NodeContext, combine: Combine, negated: bool) -> Sequence[Node]:
    """Rows of a variable. A scalar is every element's update."""
    b, indices, updates = ctx.b, ctx.value(1), _updates(ctx, negated)
    _refuse_any_order(ctx, updates.type.dtype, combine)
    rank = indices.type.rank
    before = ctx.read(0, (ctx.fresh_symbol("rows"), *updates.type.shape[rank:]) if updates.type.rank else None)
    rows, *rest = before.type.shape
    _refuse_unknown(ctx, rows)
    n = ctx.product(indices.type.shape, "updates")
    if updates.type.rank:
        updates = b.reshape(ctx.fitted(updates, (*indices.type.shape, *rest)), (n, *rest))
    row = row_of(ctx, b.reshape(indices, (n, 1)), (rows,))
    result = b.scatter(before, row, b.broadcast(updates, (n, *rest)), before.type.shape, combine)
    ctx.write(0, result)
    return ()


def _to_variable_by_several(ctx: NodeContext, combine: Combine, negated: bool) -> Sequence[Node]:
    """Elements of a variable, or slices of it, by one index of each of its first axes."""
    before = ctx.read(0)
    ctx.write(0, _scattered(ctx, before, 1, _updates(ctx, negated), before.type.shape, combine))
    return ()


_COMBINES = {"Add": (Combine.SUM, False), "Sub": (Combine.SUM, True), "Mul": (Combine.PROD, False),
             "Max": (Combine.MAX, False), "Min": (Combine.MIN, False), "Update": (Combine.SET, False)}
"""The end of an op's name -> how it combines, and whether it takes its updates negated."""

for word, (combine, negated) in _COMBINES.items():
    legalize(f"ResourceScatter{word}")(partial(_to_variable, combine=combine, negated=negated))
    if word != "Mul":  # TensorFlow has none
        legalize(f"TensorScatter{word}")(partial(_to_tensor, combine=combine, negated=negated))
        legalize(f"ResourceScatterNd{word}")(partial(_to_variable_by_several, combine=combine, negated=negated))
