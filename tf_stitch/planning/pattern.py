"""A pattern: nodes of a region that become one kernel or one library call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind


@dataclass(frozen=True)
class Pattern:
    """Nodes that become one kernel (operands first), and those of them whose values are needed outside."""

    nodes: tuple[Node, ...]
    outputs: tuple[Node, ...]
    free: frozenset[Node]

    def holds(self, node: Node) -> bool:
        """Whether a kernel of this pattern computes `node` itself."""
        return node in self._members or node in self.free

    @cached_property
    def recognized(self) -> dict[object, object]:
        """What planning/pattern_kind.py found out about the pattern, by question."""
        return {}

    @cached_property
    def _members(self) -> frozenset[Node]:
        return frozenset(self.nodes)

    def name(self, node: Node) -> str:
        """The user's node that a value is, or "for" the one that it is a step towards; "" if it is unknown."""
        name = node.loc.node
        return f"for {name}" if name and node in self._steps else name

    def names(self, nodes: Iterable[Node]) -> tuple[str, ...]:
        """Names of values, each once."""
        return tuple(dict.fromkeys(name for name in map(self.name, nodes) if name))

    @cached_property
    def _steps(self) -> frozenset[Node]:
        found: set[Node] = set()
        for node in reversed(self.nodes):
            if node.kind is not OpKind.RESHAPE or node in found:  # what is the same in memory has the same name
                found.update(o for o in node.operands if o.loc.node == node.loc.node)
        return frozenset(found)

    def reads(self) -> list[Node]:
        """Values that come from outside, in order of first use, through free nodes too."""
        return list(self._reads)

    @cached_property
    def _reads(self) -> tuple[Node, ...]:
        found: dict[Node, None] = {}
        seen: set[Node] = set()

        def visit(node: Node) -> None:
            for operand in node.operands:
                if operand in self._members or operand in seen:
                    continue
                seen.add(operand)
                if operand in self.free:
                    visit(operand)
                else:
                    found[operand] = None

        for node in self.nodes:
            visit(node)
        return tuple(found)


def make_pattern(nodes: Iterable[Node], users: dict[Node, list[Node]], wanted: frozenset[Node],
                 free: frozenset[Node]) -> Pattern:
    """A pattern of `nodes` (operands first).

    Args:
        users: users of every node of the region.
        wanted: live-out values of the region.
    """
    ordered = tuple(nodes)
    members = frozenset(ordered)
    outputs = tuple(n for n in ordered if n in wanted or _needed_outside(n, members, users, wanted, free))
    return Pattern(ordered, outputs, free)


def _needed_outside(node: Node, members: frozenset[Node], users: dict[Node, list[Node]], wanted: frozenset[Node],
                    free: frozenset[Node]) -> bool:
    """Whether others read a value, perhaps to compute a free node again: also a live-out of the pattern."""
    return any((u not in members and (u not in free or u in wanted))
               or (u in free and _needed_outside(u, members, users, wanted, free)) for u in users[node])


def between(pattern: Pattern) -> list[Node]:
    """The pattern's nodes and the free nodes that lead from one to another, operands first."""
    members = set(pattern.nodes)
    order: dict[Node, None] = {}

    def visit(node: Node) -> bool:
        """Whether a member is above."""
        if node in order:
            return True
        if node not in members and node not in pattern.free:
            return False
        above = [visit(o) for o in node.operands]
        if node in members or any(above):
            order[node] = None
            return True
        return False

    for node in pattern.nodes:
        visit(node)
    return list(order)



def alone(node: Node) -> Pattern:
    """A node that reads its operands from memory, and is stored."""
    return Pattern((node,), (node,), frozenset())
