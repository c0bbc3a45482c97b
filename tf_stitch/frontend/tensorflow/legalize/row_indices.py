"""Indices of several axes as rows of a tensor with these axes made one."""

from __future__ import annotations

from functools import partial, reduce

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.types import Shape


def row_of(ctx: NodeContext, indices: Node, axes: Shape) -> Node:
    """The row that each of `indices` [n, k] means, of axes of these k sizes. Where an index is outside, it is the row
    behind the last, which is an error on a CPU and none on a GPU."""
    b, dtype, n = ctx.b, indices.type.dtype, indices.type.shape[0]
    if any(not isinstance(dim, int) for dim in axes[1:]):
        raise UnsupportedError(f"{ctx.op} by several indices of axes whose sizes are decided at run time")
    row = b.constant(0, dtype)
    outside = []
    for axis, dim in enumerate(axes):
        index = b.reshape(b.slice(indices, [0, axis], [1, 1], (n, 1)), (n,))
        size = b.extent((dim,), dtype)
        outside.append(b.op(K.LESS, index, b.scalar_like(0, index)))
        if len(axes) > 1:
            outside.append(b.op(K.GREATER_EQUAL, index, size))
        row = b.add(b.mul(row, size), index) if axis else index
    behind = b.extent((ctx.product(axes, "rows"),), dtype)
    return b.select(reduce(partial(b.op, K.OR), outside), behind, row)
