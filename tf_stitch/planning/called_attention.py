"""Which nodes of attentions, as a library computes them, one call gives together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category
from tf_stitch.libraries.attention import call_key
from tf_stitch.planning.attention import Operand


@dataclass(frozen=True)
class CalledAttention:
    """Nodes that one call computes, of the same operands.

    Attributes:
        nodes: all of them are results.
    """

    nodes: tuple[Node, ...]

    @property
    def results(self) -> tuple[Node, ...]:
        return self.nodes

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """Matrices: it reads rows as they lie."""
        found = dict.fromkeys(o for node in self.nodes for o in node.operands if o.type.rank == 4)
        return tuple(Operand(node, False) for node in found)


def called_attentions(nodes: Sequence[Node]) -> Iterator[CalledAttention]:
    """The nodes of each call.

    Args:
        nodes: operands first.
    """
    groups: dict[object, list[Node]] = {}
    for node in nodes:
        if node.category is Category.ATTENTION:
            groups.setdefault(call_key(node), []).append(node)
    for group in groups.values():
        yield CalledAttention(tuple(group))
