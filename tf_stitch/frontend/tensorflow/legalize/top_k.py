"""The best k elements of rows.

Elements have one order: the larger value first, NaN before all, and the lower index first of equals. (TensorFlow's CPU
kernel has no order for NaN, what it gives depends on k; XLA's has this one.) Round r finds the first of those that come
after what round r - 1 found. That is two reductions, of values and of indices, which a compiler makes vectors of; no
element is left out by writing over it, so any value may be among the best.

Long rows are cut in chunks. The k best are in the k chunks whose own best come first: a row is read once, for the
maxima of chunks, and the rounds look at these and at the elements of k chunks.
"""

from __future__ import annotations

import math

import numpy as np

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.numpy_reference import lowest
from tf_stitch.ir.op_kinds import OpKind as K

MOST_ROUNDS = 16
"""Largest k: the work of rounds grows with it, TensorFlow's hardly."""
LONG_ROW = 1024
"""Elements from which a row is cut in chunks."""
PLACE = DType.I32


@legalize("TopKV2")
def top_k(ctx: NodeContext) -> tuple[Node, Node]:
    """Sorted, whether or not it is asked for."""
    b, x, k = ctx.b, ctx.value(0), ctx.scalar(1, "k")
    if x.type.rank == 0 or not isinstance(n := x.type.shape[-1], int):
        raise UnsupportedError(f"{ctx.op} of {x.type}")
    if not 0 < k <= n:
        raise UnsupportedError(f"{ctx.op}: k = {k} of {n}")
    if k > MOST_ROUNDS:
        raise UnsupportedError(f"{ctx.op}: k = {k} is more than {MOST_ROUNDS}, TensorFlow sorts")
    lead = x.type.shape[:-1]
    flat = b.reshape(x, (ctx.product(lead, "rows"), n))
    values, places = _by_chunks(ctx, flat, k) if n >= LONG_ROW else _by_rounds(b, flat, b.iota((1, n), 1, PLACE), k)
    return b.reshape(values, (*lead, k)), b.cast(b.reshape(places, (*lead, k)), ctx.attrs.dtype("index_type"))


def _by_chunks(ctx: NodeContext, x: Node, k: int) -> tuple[Node, Node]:
    """As _by_rounds, for places that are numbers."""
    b, (rows, n) = ctx.b, x.type.shape
    assert isinstance(n, int)
    width = _width(n, k)
    count = -(-n // width)
    if count * width > n:  # what fills the last chunk comes last
        x = b.pad(x, b.scalar_like(lowest(x.type.dtype.numpy, smallest=True), x), (0, 0), (0, count * width - n))
    best = b.reduce(K.MAX, b.reshape(x, (rows, count, width)), [2])
    _, chunks = _by_rounds(b, best, b.iota((1, count), 1, PLACE), k)
    row = b.mul(b.iota((rows, 1), 0, PLACE), b.constant(count, PLACE))
    taken = b.op(K.GATHER, b.reshape(x, (ctx.product([rows, count], "chunks"), width)), b.add(row, chunks))
    first = b.reshape(b.mul(chunks, b.constant(width, PLACE)), (rows, k, 1))
    places = b.add(first, b.iota((1, 1, width), 2, PLACE))
    return _by_rounds(b, b.reshape(taken, (rows, k * width)), b.reshape(places, (rows, k * width)), k)


def _width(n: int, k: int) -> int:
    """Elements of a chunk: about as many chunks of a row as elements of k chunks; if possible such that none is short."""
    ideal = math.sqrt(n / k)
    fitting = [width for width in range(math.ceil(ideal / 2), math.floor(ideal * 2) + 1) if n % width == 0]
    return min(fitting, key=lambda width: abs(math.log(width / ideal)), default=round(ideal))


def _by_rounds(b: Builder, x: Node, place: Node, k: int) -> tuple[Node, Node]:
    """Values and places of the best k elements of each row, each [rows, k].

    Args:
        x: [rows, n].
        place: [rows or 1, n]: what orders equal values.
    """
    nowhere = b.constant(np.iinfo(PLACE.numpy).max, PLACE)
    bottom = b.scalar_like(lowest(x.type.dtype.numpy, smallest=True), x)
    after: Node | None = None
    values, places = [], []
    for _ in range(k):
        value = b.reduce(K.MAX, x if after is None else b.select(after, x, bottom), [1], keepdims=True)
        same = _same(b, x, value)
        found = same if after is None else b.op(K.AND, same, after)
        at = b.reduce(K.MIN, b.select(found, place, nowhere), [1], keepdims=True)
        after = b.op(K.OR, _less(b, x, value), b.op(K.AND, same, b.op(K.GREATER, place, at)))
        values.append(value)
        places.append(at)
    return b.concat(values, 1), b.concat(places, 1)


def _same(b: Builder, x: Node, value: Node) -> Node:
    same = b.op(K.EQUAL, x, value)
    if not x.type.dtype.is_float:
        return same
    return b.op(K.OR, same, b.op(K.AND, b.op(K.IS_NAN, x), b.op(K.IS_NAN, value)))


def _less(b: Builder, x: Node, value: Node) -> Node:
    """NaN is more than all numbers."""
    less = b.op(K.LESS, x, value)
    if not x.type.dtype.is_float:
        return less
    return b.op(K.OR, less, b.op(K.AND, b.op(K.LOGICAL_NOT, b.op(K.IS_NAN, x)), b.op(K.IS_NAN, value)))
