"""Chooses what is computed again by an integer linear program, solved with pulp.

Binary variables say for each use of a value whether it is kept until then, computed again by a kernel, or by its
readers. Times of the step come in as they are found to be over the budget: of a thousand a few matter. In large
programs values of equal layers are decided together.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from tf_stitch.interruption import run_foreign
from tf_stitch.planning.ilp_solver import dual_bound, import_pulp, new_variable, program_name, solver_of
from tf_stitch.planning.memory import Choice, How, MemoryProblem, peaks
from tf_stitch.planning.memory_greedy import solve_greedily

GAP = 0.01
"""Of the time that a choice takes beyond the least: predicted times are less exact."""
MANY, PIECES = 600, 4
"""Variables from which on values of equal layers are decided together, those of neighbouring layers in this many
pieces: a budget between two decisions for all of them would be met by the dearer one."""
TIMES = 12
"""Times of the step that a program gets at once, where more than the budget is alive."""
SCALE = 1 << 10
"""Bytes are counted in KiB: a solver's tolerance is relative to its numbers."""
TOLERANCE = 20
"""A budget is kept to if no more than it and a part of 2^-20 is alive."""


@dataclass(frozen=True)
class Solution:
    """A choice, and how good it is.

    Attributes:
        status: "optimal" (nearly so, see GAP), "feasible" (time limit) or "greedy".
        us: microseconds spent on computing again; `bound_us`: that every choice under the budget spends at least;
            `greedy_us`: that the greedy one spends, infinite if it finds none under the budget.
        peak: bytes at one time, at most.
        program: the solver that ran, "" if none had to.
        together: values of equal layers were decided together, so that the bound is one for such choices.
    """

    choice: Choice
    status: str
    us: float
    bound_us: float
    greedy_us: float
    peak: int
    program: str = ""
    together: bool = False


def solve_memory(problem: MemoryProblem, budget: int, solver: str = "ilp", seconds: float = 10.0) -> Solution:
    """The choice of the least time whose values take the budget at most at any time; where there is none, of the least
    bytes at one time.

    Args:
        solver: "ilp" or "greedy".
        seconds: time limit of all its programs together.
    """
    kept = problem.all_kept
    if problem.peak(kept) <= most(budget):
        return Solution(kept, "optimal", 0.0, 0.0, 0.0, problem.peak(kept))
    greedy = solve_greedily(problem, budget)
    peak, us = problem.peak(greedy), problem.us(greedy)
    found = Solution(greedy, "greedy", us, 0.0, us if peak <= most(budget) else float("inf"), peak)
    pulp = import_pulp() if solver == "ilp" else None
    if pulp is None:
        return found
    end = time.monotonic() + seconds
    if found.greedy_us == float("inf"):  # is there one that fits?
        least = _Program(pulp, problem, None).solve(found, budget, time.monotonic() + seconds / 3)
        if least is not None and least.peak < found.peak:
            found = replace(least, status="greedy")
        budget = max(budget, found.peak)
    better = _Program(pulp, problem, budget).solve(found, budget, end)
    return better if better is not None and better.peak <= most(budget) and better.us <= found.us else found


def most(budget: int) -> int:
    """Bytes that keep to a budget."""
    return budget + (budget >> TOLERANCE)


class _Program:
    """The program of a problem and a budget; None: of the least bytes at one time."""

    def __init__(self, pulp: ModuleType, problem: MemoryProblem, budget: int | None) -> None:
        self._pulp, self._problem, self._budget = pulp, problem, budget
        self._name = program_name(pulp)
        self._lp = pulp.LpProblem("memory", pulp.LpMinimize)
        self._x: dict[tuple[object, int, How], Any] = {}
        self._open = [n for n, value in enumerate(problem.values) if not value.is_settled]
        self._of = _keys(problem, self._open)
        self.together = len(set(self._of.values())) < len(self._of)
        self._times: set[int] = set()
        self._fits = bool(self._open)
        self._least: Any = None if budget is not None else new_variable(pulp, self._lp, "least", binary=False)
        cost: dict[Any, float] = defaultdict(float)
        for n in self._open:
            for i, use in enumerate(problem.values[n].uses):
                for how in (How.KEPT, How.AGAIN, How.PASSING):
                    if use.us(how) is not None:
                        cost[self._variable(n, i, how)] += use.us(how) or 0.0
        self._lp += self._sum(cost) if self._least is None else self._sum({self._least: 1})
        for n in self._open:
            self._follow(n)

    def _variable(self, number: int, i: int, how: How) -> Any:
        key = (self._of[number], i, how)
        if key not in self._x:
            self._x[key] = new_variable(self._pulp, self._lp, f"x{len(self._x):06}")
        return self._x[key]

    def _terms(self, number: int, i: int, *hows: How) -> dict[Any, int]:
        """The variables of a use that say so."""
        use = self._problem.values[number].uses[i]
        return {self._variable(number, i, how): 1 for how in hows if use.us(how) is not None}

    def _sum(self, weights: dict[Any, Any]) -> Any:
        return self._pulp.LpAffineExpression(weights)

    def _follow(self, number: int) -> None:
        """What has to hold of a value."""
        value = self._problem.values[number]
        for i, use in enumerate(value.uses):
            every = self._sum(self._terms(number, i, How.KEPT, How.AGAIN, How.PASSING))
            self._lp += (every == 1) if use.read else (every <= 1)
            if i:
                kept = self._sum(self._terms(number, i, How.KEPT))
                self._lp += kept <= self._sum(self._terms(number, i - 1, How.KEPT, How.AGAIN))
            for how in (How.AGAIN, How.PASSING):
                if use.us(how) is not None:
                    for source in value.sources:
                        there = self._there(source, use.time, how is How.AGAIN and not value.by_element)
                        if there is not None:
                            self._lp += self._sum(self._terms(number, i, how)) <= self._sum(there)

    def _there(self, number: int, time: int, in_memory: bool) -> dict[Any, int] | None:
        """Variables one of which says that a value can be read at a time; None if it can in any case."""
        value = self._problem.values[number]
        i = bisect_left(value.times, time)
        if time <= value.written or i == len(value.uses):
            return {}
        if number not in self._of:
            return None
        if value.times[i] > time:
            return self._terms(number, i, How.KEPT)
        return self._terms(number, i, How.KEPT, How.AGAIN, *([] if in_memory else [How.PASSING]))

    def _add_time(self, time: int) -> None:
        """What is alive then is no more than the budget."""
        self._times.add(time)
        alive: dict[Any, float] = defaultdict(float)
        constant = self._problem.fixed[time]
        for number, value in enumerate(self._problem.values):
            if not value.written <= time <= max(value.times, default=value.written):
                continue
            if time == value.written or number not in self._of:
                constant += value.nbytes
                continue
            i = bisect_left(value.times, time)
            for variable in self._terms(number, i, How.KEPT, *([How.AGAIN] if value.times[i] == time else [])):
                alive[variable] += value.nbytes / SCALE
        if self._least is not None:
            alive[self._least] = -1.0
        room = (self._budget or 0) - constant
        if alive:
            self._lp += self._sum(alive) <= room / SCALE
        elif room < 0:
            self._fits = False

    def solve(self, first: Solution, enough: int, end: float) -> Solution | None:
        """The best choice, from another one; None where there is none, or none is found in time. Of a program of the
        least bytes the best so far, or the first that takes no more than enough.

        Args:
            end: when to stop, by the monotonic clock.
        """
        problem, start, best = self._problem, first.choice, None
        for t in peaks(problem.alive(problem.all_kept), enough, TIMES):
            self._add_time(t)
        while self._fits and (left := end - time.monotonic()) > 0:
            self._start_from(start)
            if self._run(left) != self._pulp.LpStatusOptimal:
                break
            choice = self._chosen()
            us, alive = problem.us(choice), problem.alive(choice)
            proven = self._lp.sol_status == self._pulp.LpSolutionOptimal
            bound = dual_bound(self._lp) if self._least is None and self._name == "HiGHS" else 0.0
            found = Solution(choice, "optimal" if proven else "feasible", us, min(bound, us), first.greedy_us,
                             max(alive), self._name, self.together)
            limit = enough if self._least is None else max(enough, round(self._least.value() * SCALE))
            new = [t for t in peaks(alive, most(limit), TIMES) if t not in self._times]
            if self._least is not None and (best is None or found.peak < best.peak):
                best, start = found, choice
            if not new:
                return found
            for t in new:
                self._add_time(t)
        return best

    def _start_from(self, choice: Choice) -> None:
        for variable in self._x.values():
            variable.setInitialValue(0)
        for n in self._open:
            for i, how in enumerate(choice[n]):
                if how is not How.ABSENT:
                    self._variable(n, i, how).setInitialValue(1)
        if self._least is not None:
            self._least.setInitialValue(self._problem.peak(choice) / SCALE)

    def _run(self, seconds: float) -> Any:
        return run_foreign(lambda: self._lp.solve(solver_of(self._pulp, self._name, seconds, GAP)))

    def _chosen(self) -> Choice:
        found = list(self._problem.all_kept)
        for n in self._open:
            found[n] = tuple(next((how for how in (How.KEPT, How.AGAIN, How.PASSING) if self._says(n, i, how)),
                                  How.ABSENT) for i in range(len(found[n])))
        return tuple(found)

    def _says(self, number: int, i: int, how: How) -> bool:
        variable = self._x.get((self._of[number], i, how))
        return variable is not None and (variable.value() or 0) > 0.5


def _keys(problem: MemoryProblem, numbers: Sequence[int]) -> dict[int, object]:
    """What stands for each value: itself or, in large programs, its kind and the piece of the layers that it is of."""
    if sum(2 * len(problem.values[n].uses) for n in numbers) <= MANY:
        return {n: n for n in numbers}
    like: dict[object, list[int]] = {}
    for n in numbers:
        value = problem.values[n]
        shape = tuple((use.read, use.again_us is None, use.passing_us is None) for use in value.uses)
        like.setdefault(n if value.kind is None else (value.kind, shape), []).append(n)
    return {n: (key, at * PIECES // len(members)) for key, members in like.items()
            for at, n in enumerate(sorted(members, key=lambda n: problem.values[n].written))}
