"""Candidate patterns of a region, grown by merging neighbours while one kernel is predicted to beat two."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.contraction import AcyclicContraction
from tf_stitch.planning.stitch_plan import Pattern, make_pattern

TimeOf: TypeAlias = Callable[[Pattern], float | None]
"""Predicted microseconds of a pattern as one kernel; None if no schedule rule takes it."""


ALL_PAIRS = 8
"""Users of a value up to which every pair of them is tried."""


class Region:
    """What candidate generation needs of a connected set of nodes.

    Args:
        nodes: operands first.
        users: of every node of the graph.
        wanted: values the graph has to deliver.
        free: nodes any kernel may recompute.
    """

    def __init__(self, nodes: Sequence[Node], users: dict[Node, list[Node]], wanted: frozenset[Node],
                 free: frozenset[Node], time_of: TimeOf) -> None:
        self.nodes, self.users, self.wanted, self.free = list(nodes), users, wanted, free
        self.position = {n: i for i, n in enumerate(nodes)}
        self._time_of = time_of
        self._times: dict[frozenset[Node], float | None] = {}
        self.edges = [(o, n) for n in nodes for o in dict.fromkeys(n.operands) if o in self.position]

    def pattern(self, nodes: Iterable[Node]) -> Pattern:
        ordered = sorted(nodes, key=lambda n: self.position[n])
        return make_pattern(ordered, self.users, self.wanted, self.free)

    def time(self, nodes: Iterable[Node]) -> float | None:
        key = frozenset(nodes)
        if key not in self._times:
            self._times[key] = self._time_of(self.pattern(key))
        return self._times[key]

    def gain(self, nodes: Iterable[Node]) -> float | None:
        """Microseconds one kernel saves against a kernel per node; None if it cannot be one."""
        key = frozenset(nodes)
        whole = self.time(key)
        if whole is None:
            return None
        parts = [self.time((n,)) for n in key]
        return sum(t for t in parts if t is not None) - whole


def grow(region: Region) -> list[frozenset[Node]]:
    """Sets of two nodes or more that can be one kernel, without repetition, in a fixed order.

    The whole region comes first if it is one kernel; unless it transposes, nothing can beat that. Otherwise
    neighbours are merged, once from the inputs on and once from the outputs back; every intermediate set is a
    candidate, so that the integer program may prefer a smaller one.
    """
    found: dict[frozenset[Node], None] = {}
    everything = frozenset(region.nodes)
    gain = region.gain(everything) if len(everything) > 1 else None
    if gain is not None and gain > 0:
        found[everything] = None
        if all(n.kind is not OpKind.TRANSPOSE for n in region.nodes):
            return [everything]
    siblings = _siblings(region)
    for edges in (region.edges, region.edges[::-1]):
        groups = AcyclicContraction(region.nodes, region.edges)
        for pairs in (edges, siblings, edges):
            for a, b in pairs:
                _try_merge(region, groups, a, b, found)
    return list(found)


def _try_merge(region: Region, groups: AcyclicContraction[Node], a: Node, b: Node,
               found: dict[frozenset[Node], None]) -> None:
    left, right = groups.members(a), groups.members(b)
    if left is right:
        return
    union = frozenset(left) | frozenset(right)
    parts = region.time(left), region.time(right)
    whole = region.time(union)
    if whole is None or None in parts or whole >= sum(t for t in parts if t is not None):
        return
    if groups.merge(a, b):
        found[union] = None


def _siblings(region: Region) -> list[tuple[Node, Node]]:
    """Users of one value, produced here or outside: all pairs where they are few, else neighbours."""
    pairs: dict[tuple[Node, Node], None] = {}
    consumers: dict[Node, list[Node]] = {}
    for node in region.nodes:
        for operand in dict.fromkeys(node.operands):
            if operand not in region.free and operand.type.numel > 1:
                consumers.setdefault(operand, []).append(node)
    for users in consumers.values():
        for a, b in itertools.combinations(users, 2) if len(users) <= ALL_PAIRS else itertools.pairwise(users):
            pairs[a, b] = None
    return list(pairs)
