"""Chooses what is computed again by an integer linear program, solved with pulp.

What has to hold of a choice is in memory_rules. Times of the step come in as they are found to be over the budget: of a
thousand a few matter.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tf_stitch.interruption import run_foreign
from tf_stitch.planning.ilp_solver import dual_bound, import_pulp, new_variable, program_name, solver_of
from tf_stitch.planning.memory import Choice, MemoryProblem, peaks
from tf_stitch.planning.memory_greedy import solve_greedily
from tf_stitch.planning.memory_rules import MemoryRules

GAP = 0.01
"""Of the time that a choice takes beyond the least: predicted times are less exact."""
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
    """The choice of a problem under one budget; see MemorySolver."""
    return MemorySolver(problem, solver).solve(budget, seconds)


class MemorySolver:
    """Solves one problem under several budgets: its programs are made once.

    Args:
        solver: "ilp" or "greedy".
    """

    def __init__(self, problem: MemoryProblem, solver: str = "ilp") -> None:
        self._problem, self._solver = problem, solver

    def solve(self, budget: int, seconds: float = 10.0) -> Solution:
        """The choice of the least time whose values take the budget at most at any time; where there is none, of the
        least bytes at one time.

        Args:
            seconds: time limit of all its programs together.
        """
        problem, kept = self._problem, self._problem.all_kept
        if problem.peak(kept) <= most(budget):
            return Solution(kept, "optimal", 0.0, 0.0, 0.0, problem.peak(kept))
        greedy = solve_greedily(problem, budget)
        peak, us = problem.peak(greedy), problem.us(greedy)
        found = Solution(greedy, "greedy", us, 0.0, us if peak <= most(budget) else float("inf"), peak)
        if self._solver != "ilp" or import_pulp() is None:
            return found
        end = time.monotonic() + seconds
        if found.greedy_us == float("inf"):  # is there one that fits?
            least = self._of_least_bytes.solve(found, budget, time.monotonic() + seconds / 3)
            if least is not None and least.peak < found.peak:
                found = replace(least, status="greedy")
            budget = max(budget, found.peak)
        better = self._of_least_time.solve(found, budget, end)
        return better if better is not None and better.peak <= most(budget) and better.us <= found.us else found

    @cached_property
    def _of_least_time(self) -> _Program:
        return _Program(self._problem, least_bytes=False)

    @cached_property
    def _of_least_bytes(self) -> _Program:
        return _Program(self._problem, least_bytes=True)


def most(budget: int) -> int:
    """Bytes that keep to a budget."""
    return budget + (budget >> TOLERANCE)


class _Program:
    """The program of the least time under a budget, or of the least bytes at one time."""

    def __init__(self, problem: MemoryProblem, least_bytes: bool) -> None:
        pulp = import_pulp()
        assert pulp is not None
        self._pulp, self._problem, self._rules = pulp, problem, MemoryRules(problem)
        self._name = program_name(pulp)
        self._lp = pulp.LpProblem("memory", pulp.LpMinimize)
        self._x = [new_variable(pulp, self._lp, f"x{i:06}") for i in range(len(self._rules.us))]
        self._least: Any = new_variable(pulp, self._lp, "least", binary=False) if least_bytes else None
        self._times: dict[int, tuple[Any, int]] = {}
        """Constraints of times at which there is a choice, and the bytes that are alive in any case."""
        self._floor = 0
        """Bytes that are alive at a time at which there is none."""
        self._lp += self._sum(dict(enumerate(self._rules.us))) if self._least is None else self._least
        for rule in self._rules.found():
            difference = self._sum(dict.fromkeys(rule.these, 1) | dict.fromkeys(rule.of, -1))
            self._lp += (difference == rule.most) if rule.exactly else (difference <= rule.most)

    def _sum(self, weights: Mapping[int, float]) -> Any:
        return self._pulp.LpAffineExpression({self._x[i]: weight for i, weight in weights.items()})

    def _add_time(self, time: int, budget: int) -> None:
        """What is alive then is no more than the budget, or than the least."""
        constant, alive = self._rules.alive(time)
        if not alive:
            self._floor = max(self._floor, constant)
            return
        total = self._sum({i: nbytes / SCALE for i, nbytes in alive.items()})
        constraint = total <= (budget - constant) / SCALE if self._least is None \
            else total - self._least <= -constant / SCALE
        self._lp += constraint
        self._times[time] = constraint, constant

    def _begin(self, budget: int) -> None:
        """The times that another budget made known are those of this one, too."""
        if self._least is None:
            for constraint, constant in self._times.values():
                constraint.changeRHS((budget - constant) / SCALE)
        kept = self._problem.all_kept
        for t in peaks(self._problem.alive(kept), budget, TIMES):
            if t not in self._times:
                self._add_time(t, budget)

    def solve(self, first: Solution, budget: int, end: float) -> Solution | None:
        """The best choice, from another one; None where there is none, or none is found in time. Of a program of the
        least bytes the best so far, or the first that takes no more than the budget.

        Args:
            end: when to stop, by the monotonic clock.
        """
        problem, start, best = self._problem, first.choice, None
        self._begin(budget)
        while self._x and (self._least is not None or self._floor <= budget) and (left := end - time.monotonic()) > 0:
            self._start_from(start)
            if self._run(left) != self._pulp.LpStatusOptimal:
                break
            choice = self._rules.choice([(x.value() or 0) > 0.5 for x in self._x])
            us, alive = problem.us(choice), problem.alive(choice)
            proven = self._lp.sol_status == self._pulp.LpSolutionOptimal
            bound = dual_bound(self._lp) if self._least is None and self._name == "HiGHS" else 0.0
            found = Solution(choice, "optimal" if proven else "feasible", us, min(bound, us), first.greedy_us,
                             max(alive), self._name, self._rules.together)
            limit = budget if self._least is None else max(budget, round(self._least.value() * SCALE))
            new = [t for t in peaks(alive, most(limit), TIMES) if t not in self._times]
            if self._least is not None and (best is None or found.peak < best.peak):
                best, start = found, choice
            if not new:
                return found
            for t in new:
                self._add_time(t, budget)
        return best

    def _start_from(self, choice: Choice) -> None:
        chosen = self._rules.columns_of(choice)
        for i, variable in enumerate(self._x):
            variable.setInitialValue(int(i in chosen))
        if self._least is not None:
            self._least.setInitialValue(self._problem.peak(choice) / SCALE)

    def _run(self, seconds: float) -> Any:
        return run_foreign(lambda: self._lp.solve(solver_of(self._pulp, self._name, seconds, GAP)))
