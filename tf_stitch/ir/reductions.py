"""What kind of reduction a node is, and what it starts from."""

from __future__ import annotations

from tf_stitch.ir.graph import Node
from tf_stitch.ir.numpy_reference import lowest
from tf_stitch.ir.op_attrs import ReduceAttrs
from tf_stitch.ir.op_kinds import OpKind

ARG_KINDS = (OpKind.ARGMAX, OpKind.ARGMIN)


def keeps_last_axis(node: Node) -> bool:
    """Whether a node is a reduction across rows: of columns, as neighbours in memory."""
    return isinstance(node.attrs, ReduceAttrs) and node.operands[0].type.rank - 1 not in node.attrs.axes


def initial(node: Node) -> float | int | bool:
    """The value a reduction starts from."""
    kind, dtype = node.kind, node.operands[0].type.dtype.compute
    if kind in (OpKind.MAX, OpKind.MIN, *ARG_KINDS):
        value: float | int = lowest(dtype.numpy, kind in (OpKind.MAX, OpKind.ARGMAX))
        return int(value) if dtype.is_integer else float(value)
    return {OpKind.SUM: 0, OpKind.PROD: 1, OpKind.ANY: False, OpKind.ALL: True}.get(kind, 0)
