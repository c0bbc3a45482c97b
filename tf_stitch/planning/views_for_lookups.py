"""Other shapes of what lies in memory, for lookups: an element has the same place in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind


def looked_up_alone(reshape: Node, users: Mapping[Node, Sequence[Node]]) -> bool:
    """Whether a reshape is of an input or a variable, and all who read it look up elements by number."""
    in_memory = reshape.operands[0].kind in (OpKind.INPUT, OpKind.VARIABLE)
    return in_memory and bool(users[reshape]) and all(
        user.kind is OpKind.GATHER and reshape is not user.operands[1] for user in users[reshape])
