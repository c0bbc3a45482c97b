"""A directed acyclic graph whose nodes may be merged as long as it stays acyclic.

Keeps a topological order (Pearce and Kelly's dynamic algorithm), so that the search for a second path between two
groups visits only what lies between them in the order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
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
        if self._reaches(a, b):
            return False
        self._union(a, b)
        return True

    def _reaches(self, a: T, b: T) -> bool:
        """Whether a path leads from a to b through another group."""
        limit = self._rank[b]
        stack = [n for n in self._after[a] if n != b]
        seen: set[T] = set()
        while stack:
            n = stack.pop()
            if n == b:
                return True
            if n not in seen and self._rank[n] < limit:
                seen.add(n)
                stack.extend(self._after[n])
        return False

    def _union(self, a: T, b: T) -> None:
        """b joins a. Groups between them in the order that a reaches move behind the merged group."""
        low, high = self._rank[a], self._rank[b]
        behind = self._forward(a, high) - {a, b}
        before = self._backward(b, low) - {a, b}
        moved = sorted(before, key=lambda n: self._rank[n]) + [a] + sorted(behind, key=lambda n: self._rank[n])
        ranks = sorted([*(self._rank[n] for n in (*before, *behind)), low, high])
        # One rank fewer is needed; the merged group sits between what precedes b and what follows a.
        for n, rank in zip(moved, ranks, strict=False):
            self._rank[n] = rank
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

    def _forward(self, start: T, limit: int) -> set[T]:
        seen, stack = set[T](), [start]
        while stack:
            n = stack.pop()
            if n not in seen and self._rank[n] <= limit:
                seen.add(n)
                stack.extend(self._after[n])
        return seen

    def _backward(self, start: T, limit: int) -> set[T]:
        seen, stack = set[T](), [start]
        while stack:
            n = stack.pop()
            if n not in seen and self._rank[n] >= limit:
                seen.add(n)
                stack.extend(self._before[n])
        return seen
