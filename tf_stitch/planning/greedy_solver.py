"""Chooses patterns one by one, the largest gain first: the twin of the integer program, its check, its warm start and
its fallback."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tf_stitch.planning.selection import NEGLIGIBLE, Choice, Selection


def solve_greedily(problem: Selection, among: Iterable[int] | None = None) -> Choice:
    """As ilp_solver.solve, its bound being the problem's limit: disjoint candidates in order of gain, skipping what
    closes a cycle; then each is replaced by candidates that gain more together.

    Args:
        among: candidates that may be taken; None: all.
    """
    gains = problem.gains
    order = sorted(problem.useful if among is None else among, key=lambda j: (-gains[j], j))
    order = [j for j in order if gains[j] > NEGLIGIBLE]
    chosen = _disjoint(problem, order)
    if problem.cycles(chosen):  # rare: only then is every step checked
        chosen = _acyclic(problem, order, chosen)
    chosen = _improved(problem, order, chosen)
    return Choice(tuple(sorted(chosen)), "greedy", sum(gains[j] for j in chosen), problem.limit)


def _disjoint(problem: Selection, order: Sequence[int], first: Sequence[int] = ()) -> list[int]:
    chosen, masks = list(first), problem.masks
    taken = sum(masks[j] for j in first)
    for j in order:
        if not taken & masks[j]:
            chosen.append(j)
            taken |= masks[j]
    return chosen


def _acyclic(problem: Selection, order: Sequence[int], chosen: Sequence[int]) -> list[int]:
    """`chosen` without what closes a cycle, and what fits beside the rest."""
    kept: list[int] = []
    taken = 0
    for j in (*chosen, *order):
        if not taken & problem.masks[j] and not problem.cycles([*kept, j]):
            kept.append(j)
            taken |= problem.masks[j]
    return kept


def _improved(problem: Selection, order: Sequence[int], chosen: Sequence[int]) -> list[int]:
    """Each candidate in turn takes the place of those that it overlaps, if with what then fits beside it that gains
    more: the largest gain is often that of a large set with a part in it that is better off alone."""
    kept = list(chosen)
    gains, masks = problem.gains, problem.masks
    cost = {j: sum(problem.prices[p] for p in problem.candidates[j]) for j in order}
    beside = problem.limit - sum(cost[j] for j in kept)  # the price of positions that nothing kept holds
    improved = True
    while improved:
        improved = False
        for i in order:
            gone = [j for j in kept if masks[j] & masks[i]]
            if i in gone:
                continue
            if gains[i] - cost[i] + beside <= sum(gains[j] - cost[j] for j in gone):
                continue  # what fits beside it gains no more than its positions cost
            freed = sum(masks[j] for j in gone) & ~masks[i]
            fits = [j for j in order if masks[j] & freed] if freed else []  # nothing else has become free
            trial = _disjoint(problem, fits, [*(j for j in kept if j not in gone), i])
            more = sum(gains[j] for j in trial) - sum(gains[j] for j in kept)
            if more > NEGLIGIBLE and not problem.cycles(trial):
                kept, improved = trial, True
                beside = problem.limit - sum(cost[j] for j in kept)
    return kept
