"""Elements of an attention's gradient that a causal mask makes 0: what is made of probabilities of masked scores.

A masked score is a constant; its exponential, relative to its query's largest score, is 0 if that is far enough
above the constant, which a kernel finds out when it runs. What is multiplied by it is 0 then, whatever else the factors
are (but for those that are no numbers).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tf_stitch.ir.causal_masks import CausalMask, causal_mask_of
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind

_KEEPS_ZERO = (OpKind.CAST, OpKind.NEG, OpKind.DIV)
"""If their first operand is 0."""


@dataclass(frozen=True)
class Unseen:
    """Elements of keys above their query + mask.ahead are 0 if exp(mask.value - most) is.

    Attributes:
        most: of each query, [..., queries, 1].
    """

    mask: CausalMask
    most: Node


def unseen_elements(nodes: Sequence[Node], wanted: Iterable[Node]) -> Unseen | None:
    """What makes elements of all `wanted` nodes 0, [..., queries, keys] each.

    Args:
        nodes: what the elements are made by, operands first.
    """
    if any(node.kind is OpKind.TRANSPOSE for node in nodes):
        return None  # queries and keys may have changed places
    found: Unseen | None = None
    masked: dict[Node, CausalMask] = {}
    below: set[Node] = set()  # masked scores minus the largest
    zero: set[Node] = set()
    for node in nodes:
        mask = causal_mask_of(node)
        if mask is not None and found is not None and mask.value == 0.0 and mask.ahead <= found.mask.ahead:
            zero.add(node)
        elif mask is not None:
            masked[node] = mask
        elif node.kind is OpKind.SUB and node.operands[0] in masked and _is_column(node.operands[1], node):
            this = Unseen(masked[node.operands[0]], node.operands[1])
            if found is not None and found != this:
                return None
            found = this
            below.add(node)
        elif _is_zero(node, below, zero):
            zero.add(node)
    return found if all(node in zero for node in wanted) else None


def _is_zero(node: Node, below: set[Node], zero: set[Node]) -> bool:
    operands = node.operands
    if node.kind is OpKind.EXP:
        return operands[0] in below
    if node.kind is OpKind.MUL:
        return any(operand in zero for operand in operands)
    if node.kind is OpKind.SELECT:
        return all(operand in zero for operand in operands[1:])
    return node.kind in _KEEPS_ZERO and operands[0] in zero


def _is_column(node: Node, of: Node) -> bool:
    """Whether it has one element for each row of another."""
    return node.type.is_static and node.type.dims == (*of.type.dims[:-1], 1)
