"""Chooses what is computed again one value after the other: the twin of the integer program, its check, its warm start
and its fallback."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import TypeAlias

from tf_stitch.planning.memory import Choice, How, MemoryProblem, stretches

_Changes: TypeAlias = dict[tuple[int, int], How]
"""What becomes of uses, by the numbers of a value and of its use."""
_WAYS = tuple((how, deep) for how in (How.PASSING, How.AGAIN) for deep in (False, True))
LEAST_US = 1e-3
"""Microseconds that a value is worth at least that costs nothing."""


def solve_greedily(problem: MemoryProblem, budget: int) -> Choice:
    """While more than the budget is alive, what is alive at the worst time is computed again where it is read next: the
    value of most bytes times the time that it is gone for, for each microsecond. Ends above the budget where no value
    makes the worst time better."""
    return _Greedy(problem, budget).solve()


class _Greedy:
    def __init__(self, problem: MemoryProblem, budget: int) -> None:
        self._problem, self._budget = problem, budget
        self._hows = [list(hows) for hows in problem.all_kept]
        self._made_of: list[list[int]] = [[] for _ in problem.values]
        for number, value in enumerate(problem.values):
            for source in value.sources:
                self._made_of[source].append(number)

    def solve(self) -> Choice:
        while True:
            choice = tuple(map(tuple, self._hows))
            alive = self._problem.alive(choice)
            worst = max(range(len(alive)), key=alive.__getitem__, default=0)
            if not alive or alive[worst] <= self._budget:
                return choice
            if not self._improve(worst, alive[worst] - self._budget):
                return choice

    def _improve(self, time: int, wanted: int) -> bool:
        """Computes values again until this many bytes fewer are alive at a time, if that can be; whether any is."""
        freed = 0
        for _, number, i, how, deep in sorted(self._moves(time), key=lambda move: -move[0]):
            changes = self._with(number, i, how, deep) if self._is_kept(number, i) else None
            if changes is not None and (own := self._freed(changes, time)) > 0:
                self._apply(changes)
                freed += own
            if freed >= wanted:
                break
        return freed > 0

    def _moves(self, time: int) -> Iterator[tuple[float, int, int, How, bool]]:
        """What makes a time better: its worth, the numbers of a value and its use, how it is there then, and whether
        what it is made of is computed again, too."""
        for number, value in enumerate(self._problem.values):
            if value.is_settled:
                continue
            for i, use in enumerate(value.uses):
                if use.time < time or not self._is_kept(number, i):
                    continue
                last = self._last(number, i)
                before = value.times[last] if last >= 0 else value.written
                if before <= time:
                    for how, deep in _WAYS:
                        changes = self._with(number, i, how, deep)
                        if changes is not None and (saved := self._freed(changes, time)) > 0:
                            us = max(self._added_us(changes), LEAST_US)
                            yield saved * (use.time - before) / us, number, i, how, deep

    def _is_kept(self, number: int, i: int) -> bool:
        """Whether a value is kept until a use, for somebody."""
        return self._hows[number][i] is How.KEPT and self._is_wanted(number, i)

    def _last(self, number: int, i: int) -> int:
        """The use before at which somebody reads a value, -1 if it is the first."""
        return next((j for j in reversed(range(i)) if self._is_wanted(number, j)), -1)

    def _with(self, number: int, i: int, how: How, deep: bool) -> _Changes | None:
        """All that changes if a value is computed again at a use; None where that cannot be.

        Args:
            deep: what it is made of and not there then is computed again, too, where that can be; else it is kept.
        """
        value, last = self._problem.values[number], self._last(number, i)
        if value.uses[i].us(how) is None:
            return None
        changes: _Changes = {(number, j): How.ABSENT for j in range(last + 1, i) if self._hows[number][j] is How.KEPT}
        pending = [i]
        if how is How.PASSING:  # whoever reads it later computes it, too
            for later in range(i + 1, len(value.uses)):
                if self._hows[number][later] is not How.KEPT:
                    break
                if self._is_wanted(number, later):
                    pending.append(later)
                else:
                    changes[number, later] = How.ABSENT
        for at in pending:
            if value.uses[at].us(how) is None:
                return None
            changes[number, at] = how
        in_memory = how is How.AGAIN and not value.by_element
        if not all(self._provide(source, value.times[at], in_memory, deep, changes)
                   for at in pending for source in value.sources):
            return None
        return changes if self._others_stay(changes) else None

    def _others_stay(self, changes: _Changes) -> bool:
        """Whether what was chosen before to be computed of these values still can be."""
        before = {(number, i): self._hows[number][i] for number, i in changes}
        self._apply(changes)
        made = {o for number, _ in changes for o in self._made_of[number]}
        stay = all(self._problem.is_there(self._hows, source, use.time, how is How.AGAIN and not value.by_element)
                   for o in made for value in [self._problem.values[o]]
                   for use, how in zip(value.uses, self._hows[o], strict=True) if how in (How.AGAIN, How.PASSING)
                   for source in value.sources)
        self._apply(before)
        return stay

    def _apply(self, changes: _Changes) -> None:
        for (number, i), how in changes.items():
            self._hows[number][i] = how

    def _is_wanted(self, number: int, i: int) -> bool:
        """Whether a step reads a value at a use, or something is computed from it again."""
        use = self._problem.values[number].uses[i]
        return use.read or any(self._is_computed(o, use.time) for o in self._made_of[number])

    def _is_computed(self, number: int, time: int) -> bool:
        """Whether a value is computed again at a time."""
        times = self._problem.values[number].times
        i = bisect_left(times, time)
        return i < len(times) and times[i] == time and self._hows[number][i] in (How.AGAIN, How.PASSING)

    def _provide(self, number: int, time: int, in_memory: bool, deep: bool, changes: _Changes) -> bool:
        """Keeps a value until a time, or computes it then, if it is not there; whether that can be."""
        value = self._problem.values[number]
        i = bisect_left(value.times, time)
        if time <= value.written or i == len(value.uses):
            return False
        how = self._how(number, i, changes)
        if how in (How.AGAIN, How.PASSING):
            return value.times[i] == time and (how is How.AGAIN or not in_memory)
        if deep and how is How.ABSENT and value.times[i] == time and value.uses[i].can_be_computed:
            passing = value.uses[i].passing_us is not None and not in_memory
            if passing or value.uses[i].again_us is not None:
                changes[number, i] = How.PASSING if passing else How.AGAIN
                return all(self._provide(source, time, not passing and not value.by_element, deep, changes)
                           for source in value.sources)
        while i >= 0 and self._how(number, i, changes) is How.ABSENT:
            changes[number, i] = How.KEPT
            i -= 1
        return i < 0 or self._how(number, i, changes) is not How.PASSING

    def _how(self, number: int, i: int, changes: _Changes) -> How:
        return changes.get((number, i), self._hows[number][i])

    def _freed(self, changes: _Changes, time: int) -> int:
        """Bytes at a time."""
        freed = 0
        for number in {number for number, _ in changes}:
            value, now = self._problem.values[number], self._hows[number]
            after = [changes.get((number, i), how) for i, how in enumerate(now)]
            freed += value.nbytes * (sum(first <= time <= last for first, last in stretches(value, now))
                                     - sum(first <= time <= last for first, last in stretches(value, after)))
        return freed

    def _added_us(self, changes: _Changes) -> float:
        return sum((self._problem.values[number].uses[i].us(how) or 0.0)
                   - (self._problem.values[number].uses[i].us(self._hows[number][i]) or 0.0)
                   for (number, i), how in changes.items())
