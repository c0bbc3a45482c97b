"""Chooses patterns one by one, the largest gain first: the twin of the integer program, its check, its warm start and
its fallback."""

from __future__ import annotations

from collections.abc import Iterable

from tf_stitch.planning.selection import Choice, Selection


def solve_greedily(problem: Selection, among: Iterable[int] | None = None) -> Choice:
    """As ilp_solver.solve, with no proof: disjoint candidates in order of gain, skipping what closes a cycle.

    Args:
        among: candidates that may be taken; None: all.
    """
    gains = problem.gains
    order = sorted(range(len(gains)) if among is None else among, key=lambda j: (-gains[j], j))
    chosen: list[int] = []
    taken: set[int] = set()
    for j in order:
        if gains[j] > 0 and not taken & problem.candidates[j]:
            chosen.append(j)
            taken |= problem.candidates[j]
    if problem.cycles(chosen):  # rare: only then is every step checked
        kept: list[int] = []
        for j in chosen:
            if not problem.cycles([*kept, j]):
                kept.append(j)
        taken = {p for j in kept for p in problem.candidates[j]}
        for j in order:
            if gains[j] > 0 and not taken & problem.candidates[j] and not problem.cycles([*kept, j]):
                kept.append(j)
                taken |= problem.candidates[j]
        chosen = kept
    bound = sum(max(g, 0.0) for g in gains)
    return Choice(tuple(sorted(chosen)), "greedy", sum(gains[j] for j in chosen), bound)
