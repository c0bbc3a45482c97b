"""Chooses patterns one by one, the largest gain first: the twin of the integer program, its check and fallback."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.ir.graph import Node
from tf_stitch.planning.ilp_solver import Choice
from tf_stitch.planning.legality import find_cycle


def solve_greedily(candidates: Sequence[frozenset[Node]], gains: Sequence[float], nodes: Sequence[Node],
                   seconds: float = 0.0) -> Choice:
    """As ilp_solver.solve, with no proof: disjoint candidates in order of gain, skipping what closes a cycle."""
    chosen: list[int] = []
    taken: set[Node] = set()
    for j in sorted(range(len(candidates)), key=lambda j: (-gains[j], j)):
        if gains[j] <= 0 or taken & candidates[j]:
            continue
        if find_cycle([*(candidates[i] for i in chosen), candidates[j]], nodes) is None:
            chosen.append(j)
            taken |= candidates[j]
    objective = sum(gains[j] for j in chosen)
    return Choice(tuple(sorted(chosen)), "greedy", objective, sum(max(g, 0.0) for g in gains))
