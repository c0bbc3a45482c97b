"""What kind of reduction a node is."""

from __future__ import annotations

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ReduceAttrs


def keeps_last_axis(node: Node) -> bool:
    """Whether a node is a reduction across rows: of columns, as neighbours in memory."""
    return isinstance(node.attrs, ReduceAttrs) and node.operands[0].type.rank - 1 not in node.attrs.axes
