"""The choice among patterns as a problem of its own: which of many overlapping sets to take, so that the graph of what
is taken has no cycle."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tf_stitch.planning.dependence import Edge, strong_components

NEGLIGIBLE = 1e-6
"""Microseconds below which two gains are the same."""


@dataclass(frozen=True)
class Selection:
    """Candidates are sets of positions 0 .. size - 1; `edges` (before, after) hold for data and for control alike, and
    ascend in no particular order. `gains` are microseconds saved. A choice has to save `least_saved` kernels at least,
    against one for each position."""

    candidates: tuple[frozenset[int], ...]
    gains: tuple[float, ...]
    size: int
    edges: tuple[Edge, ...]
    least_saved: int = 0

    @cached_property
    def useful(self) -> tuple[int, ...]:
        """Candidates that gain something."""
        return tuple(j for j, gain in enumerate(self.gains) if gain > NEGLIGIBLE)

    def saved(self, chosen: Iterable[int]) -> int:
        """Kernels fewer than positions."""
        return sum(len(self.candidates[j]) - 1 for j in chosen)

    def cycles(self, chosen: Sequence[int]) -> list[tuple[int, ...]]:
        """Candidates on a short cycle of the contracted graph, one cycle for each group of positions that wait for
        each other; none if what is chosen can run."""
        owner = list(range(self.size))
        for j in chosen:
            for p in self.candidates[j]:
                owner[p] = self.size + j
        nodes = self.size + len(self.candidates)
        edges = {(owner[a], owner[b]) for a, b in self.edges if owner[a] != owner[b]}
        component = strong_components(nodes, edges)
        inside: dict[int, list[Edge]] = {}
        for a, b in sorted(edges):
            if component[a] == component[b]:
                inside.setdefault(component[a], []).append((a, b))
        return [tuple(sorted(n - self.size for n in _short_cycle(part) if n >= self.size)) for part in inside.values()]


@dataclass(frozen=True)
class Choice:
    """Indices of chosen candidates, and how sure the solver is.

    Attributes:
        status: "optimal", "feasible" (time limit; `bound` tells how far off it may be) or "greedy".
        objective, bound: microseconds saved, and the most that could be saved.
        cuts: cycles that were forbidden.
        program: the solver that ran, "" if none had to.
    """

    chosen: tuple[int, ...]
    status: str
    objective: float
    bound: float
    cuts: int = 0
    program: str = ""


def _short_cycle(edges: Sequence[Edge]) -> list[int]:
    """Nodes of a cycle through the first node of a strongly connected graph, as few as possible."""
    after: dict[int, list[int]] = {}
    for a, b in edges:
        after.setdefault(a, []).append(b)
    start = edges[0][0]
    came: dict[int, int] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for b in after.get(node, ()):
            if b == start:
                cycle = [node]
                while cycle[-1] != start:
                    cycle.append(came[cycle[-1]])
                return cycle
            if b not in came:
                came[b] = node
                queue.append(b)
    raise AssertionError("strongly connected nodes lie on a cycle")
