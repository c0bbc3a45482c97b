"""Levels of a graph, which no kernel spans, and what a value can be recomputed from on a later one.

A level is the number of large matmuls in sequence before a node. What a later level needs of an earlier one lies in
memory in between: written once, and read again. A value that comes from others that lie there anyway need not: its few
operations are cheaper than its bytes (rematerialization, as compilers do it with registers).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tf_stitch.ir.graph import Node, users_of, view_of
from tf_stitch.ir.op_attrs import TransposeAttrs
from tf_stitch.ir.op_kinds import Category, OpKind

MOST_SOURCES = 4
"""A value that comes from more is not followed further."""
_IN_MEMORY = (OpKind.INPUT, OpKind.CONSTANT)
_POSITIONS = (OpKind.IOTA, OpKind.EXTENT)  # which every kernel knows
_REPEATED_MOVEMENT = (OpKind.RESHAPE, OpKind.BROADCAST)


@dataclass(frozen=True)
class Levels:
    """Where nodes stand.

    Attributes:
        of: the level of each node. What comes from memory alone waits for the first level that wants it, if no more has
            to be kept for that than the value itself.
        sources: what each value is recomputed from, single elements left out; of one that is not, itself.
        kept: values that lie in memory for later levels, whoever else needs them.
    """

    of: Mapping[Node, int]
    sources: Mapping[Node, frozenset[Node]]
    kept: Collection[Node]

    def to_keep(self, nodes: Collection[Node]) -> int:
        """Bytes of those that do not lie in memory anyway."""
        return sum(n.type.typical_bytes for n in nodes if n not in self.kept)


def find_levels(nodes: Sequence[Node], separates: Callable[[Node], bool], wanted: Collection[Node] = ()) -> Levels:
    """The levels of `nodes`.

    Args:
        nodes: with all operands, operands first.
        separates: whether a node is a matmul that no kernel computes.
        wanted: values that memory has to hold in any case.
    """
    users = users_of(nodes)
    matmuls = {n for n in nodes if separates(n)}
    of: dict[Node, int] = {}
    for node in nodes:
        of[node] = max((of[o] + (o in matmuls) for o in node.operands), default=0)
    read_by_matmuls = _read_by(matmuls, nodes)
    levels = Levels(of, sources := {}, kept := set())
    for node in nodes:
        sources[node] = frozenset() if node.kind in _POSITIONS else frozenset((node,))
        if node in matmuls or node in read_by_matmuls or node in wanted or node.kind in _IN_MEMORY:
            kept.add(node)
            continue
        found = _sources_of_operands(node, sources) if _is_repeated(node) else sources[node]
        if len(found) <= MOST_SOURCES and (_is_variable(node) or _waits(node, found, levels)):
            sources[node] = found
        elif any(of[user] > of[node] for user in users[node]):
            kept.add(node)
    for node in reversed(nodes):
        if users[node] and node not in matmuls and node not in sources[node]:
            of[node] = max(of[node], min(of[user] for user in users[node]))
    return levels


def _sources_of_operands(node: Node, sources: Mapping[Node, frozenset[Node]]) -> frozenset[Node]:
    return frozenset[Node]().union(*(sources[o] for o in node.operands if o.type.numel != 1))


def _is_repeated(node: Node) -> bool:
    if isinstance(node.attrs, TransposeAttrs):  # rows that stay rows are read as fast in another order
        return node.attrs.perm[-1:] == (node.type.rank - 1,)
    return node.category is Category.ELEMENTWISE or node.kind in _REPEATED_MOVEMENT


def _is_variable(node: Node) -> bool:
    """A variable by another shape, which is no more than where to read."""
    return node.kind is OpKind.RESHAPE and view_of(node).kind is OpKind.VARIABLE


def _waits(node: Node, found: Collection[Node], levels: Levels) -> bool:
    """Whether less has to be kept than the value itself, and no more is read than writing and reading it takes."""
    own = node.type.typical_bytes
    return levels.to_keep(found) < own and sum(n.type.typical_bytes for n in found) <= 2 * own


def _read_by(matmuls: Collection[Node], nodes: Sequence[Node]) -> set[Node]:
    """Values that matmuls read, be it in another shape."""
    read = {operand for matmul in matmuls for operand in matmul.operands}
    for node in reversed(nodes):
        if node in read and node.kind is OpKind.RESHAPE:
            read.add(node.operands[0])
    return read
