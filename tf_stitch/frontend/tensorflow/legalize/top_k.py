"""The best k elements of rows.

Elements have one order: the larger value first, NaN before all, and the lower index first of equals. (TensorFlow's CPU
kernel has no order for NaN, what it gives depends on k; XLA's has this one.) A number of 64 bits, value above index,
keeps it: round r finds the largest of those that are less than what round r - 1 found. No element is left out by
writing over it, so any value may be among the best.

Long rows are cut in chunks. The k best are in the k chunks whose own best come first: a row is read once, for the
maxima of chunks, and the rounds look at these and at the elements of k chunks.

Short rows whose best are many, or that are sorted whole (tf.sort), have no rounds: the place of an element is how many
come before it.
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
from tf_stitch.ir.types import Shape

MOST_ROUNDS = 16
"""Largest k. Kernels would win beyond (on two cores, 4 rows of 32000: 15 us for k = 4, 54 for 16, 30 for 32, where
TensorFlow takes 290, 160, 290), but planning takes 0.3, 2 and 19 seconds."""
LONG_ROW = 1024
"""Elements from which a row is cut in chunks (k = 4, 64 rows of 1000 as they are: 22 us, of 1024 in chunks: 15)."""
MOST_COMPARED = {"CPU": 64, "GPU": 128}
"""Elements of a row each of which is compared with each other, by device type, where k is more than MOST_ROUNDS. The
work is that of its square: 4,096 rows of 64 are predicted to take 39 us on an H200, of 128 116, of 512 1,330. Nothing
was timed, and TensorFlow's sort neither."""
_DTYPES = (DType.F16, DType.BF16, DType.F32, DType.I32)
_I32 = np.iinfo(np.int32)


@legalize("TopKV2")
def top_k(ctx: NodeContext) -> tuple[Node, Node]:
    """On a CPU sorted alone: without order the best stand as they stood in the heap of TensorFlow's kernel
    (topk_op.cc), and who draws among them by position draws another one from any other order. Its kernels for GPUs sort
    whatever they are told (topk_op_gpu.h)."""
    b, x, k = ctx.b, ctx.value(0), ctx.scalar(1, "k")
    if x.type.rank == 0 or x.type.dtype not in _DTYPES or not isinstance(n := x.type.shape[-1], int):
        raise UnsupportedError(f"{ctx.op} of {x.type}")
    if not 0 < k <= n < _I32.max:
        raise UnsupportedError(f"{ctx.op}: k = {k} of {n}")
    if k > 1 and not ctx.attrs.flag("sorted") and not ctx.on_gpu:
        raise UnsupportedError(f"{ctx.op} without an order: the one of TensorFlow's heap is its own")
    compared = MOST_COMPARED["GPU" if ctx.on_gpu else "CPU"]
    if k > MOST_ROUNDS and n > compared:
        raise UnsupportedError(f"{ctx.op}: k = {k} is more than {MOST_ROUNDS}, in rows of more than {compared}")
    lead = x.type.shape[:-1]
    rows = ctx.product(lead, "rows")
    flat = b.reshape(x, (rows, n))
    row = b.reshape(_row_numbers(b, lead), (rows, 1))
    if k > MOST_ROUNDS:
        places = _by_ranks(b, flat, k)
    elif n >= LONG_ROW:
        places = _by_chunks(ctx, flat, row, k)
    else:
        places = _by_rounds(b, flat, b.iota((1, n), 1, DType.I64), k)
    at = b.add(b.mul(row, b.constant(n, DType.I64)), places)
    values = b.op(K.GATHER, b.reshape(x, (ctx.product([rows, n], "all"),)), at)
    return b.reshape(values, (*lead, k)), b.cast(b.reshape(places, (*lead, k)), ctx.attrs.dtype("index_type"))


def _row_numbers(b: Builder, lead: Shape) -> Node:
    """Of rows in C order, int64 [*lead]."""
    number = b.constant(0, DType.I64)
    for axis, dim in enumerate(lead):
        shape = tuple(d if a == axis else 1 for a, d in enumerate(lead))
        number = b.add(b.mul(number, b.extent((dim,), DType.I64)), b.iota(shape, axis, DType.I64))
    return number


def _by_chunks(ctx: NodeContext, x: Node, row: Node, k: int) -> Node:
    """As _by_rounds, for places that are numbers.

    Args:
        row: int64 [rows, 1], numbers of the rows.
    """
    b, (rows, n) = ctx.b, x.type.shape
    assert isinstance(n, int)
    width = _width(n, k)
    count = -(-n // width)
    if count * width > n:  # what fills the last chunk comes last
        x = b.pad(x, b.scalar_like(lowest(x.type.dtype.numpy, smallest=True), x), (0, 0), (0, count * width - n))
    best = b.reduce(K.MAX, b.reshape(x, (rows, count, width)), [2])
    chunks = _by_rounds(b, best, b.iota((1, count), 1, DType.I64), k)
    at = b.add(b.mul(row, b.constant(count, DType.I64)), chunks)
    taken = b.op(K.GATHER, b.reshape(x, (ctx.product([rows, count], "chunks"), width)), at)
    first = b.reshape(b.mul(chunks, b.constant(width, DType.I64)), (rows, k, 1))
    places = b.add(first, b.iota((1, 1, width), 2, DType.I64))
    return _by_rounds(b, b.reshape(taken, (rows, k * width)), b.reshape(places, (rows, k * width)), k)


def _width(n: int, k: int) -> int:
    """Elements of a chunk: about as many chunks of a row as elements of k chunks, and none short if that can be."""
    ideal = math.sqrt(n / k)
    fitting = [width for width in range(math.ceil(ideal / 2), math.floor(ideal * 2) + 1) if n % width == 0]
    return min(fitting, key=lambda width: abs(math.log(width / ideal)), default=round(ideal))


def _by_rounds(b: Builder, x: Node, place: Node, k: int) -> Node:
    """Places of the best k elements of each row [rows, k].

    Args:
        x: [rows, n].
        place: int64 [rows or 1, n], from 0 to 2^31 - 2, each once in a row.
    """
    last, key = b.constant(_I32.max, DType.I64), _keys(b, x, place)
    bottom = b.constant(np.iinfo(np.int64).min, DType.I64)
    best: list[Node] = []
    for _ in range(k):
        left = b.select(b.op(K.LESS, key, best[-1]), key, bottom) if best else key
        best.append(b.reduce(K.MAX, left, [1], keepdims=True))
    return b.sub(last, b.op(K.AND, b.concat(best, 1), b.constant((1 << 32) - 1, DType.I64)))


def _by_ranks(b: Builder, x: Node, k: int) -> Node:
    """As _by_rounds, of rows [rows, n] whose places are 0 to n - 1."""
    rows, n = x.type.shape
    key = _keys(b, x, b.iota((1, n), 1, DType.I64))
    before = b.op(K.GREATER, b.reshape(key, (rows, 1, n)), b.reshape(key, (rows, n, 1)))
    rank = b.reshape(b.sum(b.cast(before, DType.I32), [2]), (rows, 1, n))
    found = b.op(K.EQUAL, rank, b.iota((1, k, 1), 1, DType.I32))
    place = b.select(found, b.iota((1, 1, n), 2, DType.I32), b.constant(0, DType.I32))
    return b.cast(b.sum(place, [2]), DType.I64)


def _keys(b: Builder, x: Node, place: Node) -> Node:
    """Numbers in the order of elements, the last first."""
    high = b.mul(b.cast(_as_integer(b, x), DType.I64), b.constant(1 << 32, DType.I64))
    return b.add(high, b.sub(b.constant(_I32.max, DType.I64), place))


def _as_integer(b: Builder, x: Node) -> Node:
    """int32 in the order of x; both zeros are 0, and NaN is the largest."""
    if x.type.dtype.is_integer:
        return x
    wide = b.cast(x, DType.F32)
    bits = b.op(K.BITS, wide)
    smallest, largest = b.constant(_I32.min, DType.I32), b.constant(_I32.max, DType.I32)
    ordered = b.select(b.op(K.LESS, bits, b.scalar_like(0, bits)), b.sub(smallest, bits), bits)
    return b.select(b.op(K.IS_NAN, wide), largest, ordered)
