"""A directed acyclic graph whose nodes may be merged as long as it stays acyclic.

Keeps a topological order (Pearce and Kelly's dynamic algorithm), so that the search for a second path between two
groups visits only what lies between them in the order, from the end that has fewer neighbours: a large group has
thousands.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class AcyclicContraction(Generic[T]):
    """Groups of items, at first one each.

    Args:
        items: in a topological order of `edges`.
        edges: (before, after) pairs.
    """

    def __init__(self, items: Sequence[T], edges: Iterable[tuple[T, T]]) -> None:
        self._parent = {item: item for item in items}
        self._rank = {item: i for i, item in enumerate(items)}
        self._members: dict[T, list[T]] = {item: [item] for item in items}
        self._after: dict[T, set[T]] = {item: set() for item in items}
        self._before: dict[T, set[T]] = {item: set() for item in items}
        for a, b in edges:
            if a != b:
                self._after[a].add(b)
                self._before[b].add(a)

    def find(self, item: T) -> T:
        """The representative of the item's group."""
        root = item
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[item] != root:
            self._parent[item], item = root, self._parent[item]
        return root

    def members(self, item: T) -> list[T]:
        return self._members[self.find(item)]

    def groups(self) -> list[list[T]]:
        """All groups in topological order."""
        roots = sorted((r for r in self._members if self._parent[r] == r), key=lambda r: self._rank[r])
        return [self._members[r] for r in roots]

    def merge(self, a: T, b: T) -> bool:
        """Merges the groups of a and b unless that would close a cycle; whether they are one group now."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return True
        if self._rank[a] > self._rank[b]:
            a, b = b, a
        ends = [(b, a, self._before), (a, b, self._after)]
        if len(self._before[b]) > len(self._after[a]):
            ends.reverse()
        between: list[set[T]] = []
        for start, goal, edges in ends:
            near = self._between(start, goal, edges)
            if near is None:
                return False
            if not near:  # nothing leads to b: at a's place both are before all that follows them; and the reverse
                self._union(a, b, self._rank[goal])
                return True
            between.append(near)
        above, below = between if ends[0][0] == b else reversed(between)
        self._union(a, b, self._part(a, b, above, below))
        return True

    def _between(self, start: T, goal: T, edges: Mapping[T, set[T]]) -> set[T] | None:
        """Groups between start and goal in the order that edges lead to from start; None if they lead on to goal."""
        low, high = sorted((self._rank[start], self._rank[goal]))
        seen, stack = set[T](), [start]
        while stack:
            near = edges[stack.pop()]
            if seen and goal in near:  # an edge from start itself is no path through another group
                return None
            new = [n for n in near if low < self._rank[n] < high and n not in seen]
            seen.update(new)
            stack += new
        return seen

    def _part(self, a: T, b: T, above: Iterable[T], below: Iterable[T]) -> int:
        """Moves what leads to b before what a leads to; the rank between them."""
        before, after = (sorted(side, key=lambda n: self._rank[n]) for side in (above, below))
        ranks = sorted(self._rank[n] for n in (a, b, *before, *after))  # one more than needed
        self._rank.update(zip(before, ranks, strict=False))
        self._rank.update(zip(after, ranks[len(before) + 1:], strict=False))
        return ranks[len(before)]

    def _union(self, a: T, b: T, rank: int) -> None:
        """One group of that rank; the smaller one joins the other."""
        if len(self._members[a]) < len(self._members[b]):
            a, b = b, a
        self._rank[a] = rank
        self._parent[b] = a
        self._members[a] += self._members.pop(b)
        for n in self._after.pop(b):
            self._before[n].discard(b)
            if n != a:
                self._before[n].add(a)
                self._after[a].add(n)
        for n in self._before.pop(b):
            self._after[n].discard(b)
            if n != a:
                self._after[n].add(a)
                self._before[a].add(n)
        self._after[a].discard(a)
        self._before[a].discard(a)
