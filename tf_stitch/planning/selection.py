"""The choice among patterns as a problem of its own: which of many overlapping sets to take, so that the graph of what
is taken has no cycle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import networkx as nx

from tf_stitch.planning.dependence import Edge

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

    @cached_property
    def masks(self) -> tuple[int, ...]:
        """Candidates as bit masks, which are compared fast."""
        return tuple(sum(1 << p for p in candidate) for candidate in self.candidates)

    @cached_property
    def limit(self) -> float:
        """Microseconds that no choice saves more than: the sum of all prices."""
        return sum(self.prices)

    @cached_property
    def prices(self) -> tuple[float, ...]:
        """A price for each position, such that no candidate gains more than its positions cost: disjoint candidates do
        not either, then, those among some positions no more than these cost.

        Candidates in order of their last position raise its price by what they gain beyond the prices so far, or the
        same from the other end (local ratio: Bar-Noy et al., A unified approach to approximating resource allocation
        and scheduling, 2001). Exact for segments of one order, which most candidates nearly are.
        """
        spans = {j: (min(self.candidates[j]), max(self.candidates[j])) for j in self.useful}
        forward = [(j, spans[j][1]) for j in sorted(self.useful, key=lambda j: (spans[j][1], -spans[j][0], j))]
        backward = [(j, spans[j][0]) for j in sorted(self.useful, key=lambda j: (-spans[j][0], spans[j][1], j))]
        return min(self._priced(forward), self._priced(backward), key=sum)

    def _priced(self, order: Iterable[tuple[int, int]]) -> tuple[float, ...]:
        """The prices that (candidate, position that pays for it) in turn lead to."""
        prices = [0.0] * self.size
        for j, end in order:
            prices[end] += max(0.0, self.gains[j] - sum(prices[p] for p in self.candidates[j]))
        return tuple(prices)

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
        graph = nx.DiGraph(sorted({(owner[a], owner[b]) for a, b in self.edges if owner[a] != owner[b]}))
        found = []
        for members in nx.strongly_connected_components(graph):
            if len(members) > 1:
                inside = graph.subgraph(members)
                before, after = min(inside.edges)
                cycle = nx.shortest_path(inside, after, before)
                found.append(tuple(sorted(n - self.size for n in cycle if n >= self.size)))
        return sorted(found)


@dataclass(frozen=True)
class Choice:
    """Indices of chosen candidates, and how sure the solver is.

    Attributes:
        status: "optimal" (among many candidates nearly so, see ilp_solver.GAP), "feasible" (time limit; `bound` tells
            how far off it may be) or "greedy".
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
