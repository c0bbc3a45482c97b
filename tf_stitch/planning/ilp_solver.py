"""Chooses patterns by an integer linear program (FusionStitching section 4.1), solved with pulp.

Maximise the sum of X_j * gain_j; patterns that share a node exclude each other; while the contracted graph has a
cycle, the patterns on it are forbidden together and the program is solved again (Fig. 3 of the paper).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from threading import Lock
from types import ModuleType
from typing import Any

from tf_stitch.interruption import run_foreign
from tf_stitch.messages import say
from tf_stitch.planning.greedy_solver import solve_greedily
from tf_stitch.planning.selection import NEGLIGIBLE, Choice, Selection

MAX_ROUNDS = 50
GAP, LARGE = 1e-3, 100
"""Part of the gain that a choice among more candidates than these may lack: predicted times are less exact than that,
and it is the proof that takes seconds."""
USED = ("LpProblem", "LpAffineExpression", "HiGHS", "LpSolutionOptimal")
"""Of pulp. Version 4 is another library: it lacks the last one, makes expressions elsewhere, and needs Python 3.12."""


_IMPORTING = Lock()
"""A second import of a package whose first one failed may find what is left of it."""


def import_pulp() -> ModuleType | None:
    """pulp; None, said once, where it cannot be imported. Imported when the first program has to be solved: it takes a
    while."""
    with _IMPORTING:
        return _imported()


@cache
def _imported() -> ModuleType | None:
    try:
        import pulp
        module: ModuleType = pulp
        missing = [name for name in USED if not hasattr(module, name)]
        if not missing:
            return module
        reason = f"version {getattr(module, '__version__', '?')} has no {missing[0]}"
    except ModuleNotFoundError as error:
        reason = "it is not installed" if error.name == "pulp" else str(error)
    except Exception as error:  # whatever a broken package raises
        reason = f"{type(error).__name__}: {error}"
    say(f"pulp cannot be used ({reason}): fusions are chosen greedily; pip install \"pulp>=2.8,<4\"")
    return None


def solve(problem: Selection, seconds: float) -> Choice:
    """As improve, from the greedy choice."""
    return improve(problem, solve_greedily(problem), seconds)


def improve(problem: Selection, greedy: Choice, seconds: float) -> Choice:
    """The best choice of disjoint candidates whose contraction is acyclic, never worse than the greedy one.

    A greedy choice that reaches the problem's limit needs no program: most do. Where the time ends, the best choice
    found so far is returned as "feasible", with the solver's bound; where there is no pulp, the greedy one.

    Args:
        greedy: saves `least_saved` kernels.
        seconds: time limit of all its programs together.
    """
    if greedy.objective >= greedy.bound - NEGLIGIBLE:
        return Choice(greedy.chosen, "optimal", greedy.objective, greedy.objective)
    if greedy.objective >= greedy.bound * (1 - _gap(problem)):
        return replace(greedy, status="optimal")
    pulp = import_pulp()
    return greedy if pulp is None else _Program(pulp, problem).solve(greedy, seconds)


def _gap(problem: Selection) -> float:
    return GAP if len(problem.useful) > LARGE else 0.0


class _Program:
    """The integer program of a problem; constraints are added as cycles are found."""

    def __init__(self, pulp: ModuleType, problem: Selection) -> None:
        self._pulp, self._problem = pulp, problem
        self._name = program_name(pulp)
        self._lp = pulp.LpProblem("stitch", pulp.LpMaximize)
        self._x = {j: new_variable(pulp, self._lp, f"x{j:06}") for j in problem.useful}  # pulp orders them by name
        self._lp += self._weighted(problem.gains)
        for sharing in _exclusive(problem):
            self._forbid(sharing, 1)
        if problem.least_saved:
            self._lp += self._weighted([len(c) - 1 for c in problem.candidates]) >= problem.least_saved

    def _weighted(self, weights: Sequence[float]) -> Any:
        return self._pulp.LpAffineExpression({x: weights[j] for j, x in self._x.items()})

    def _forbid(self, candidates: tuple[int, ...], most: int) -> None:
        self._lp += self._pulp.LpAffineExpression({self._x[j]: 1 for j in candidates}) <= most

    def solve(self, greedy: Choice, seconds: float) -> Choice:
        """Solves until no cycle is left."""
        best, bound, cuts = greedy, greedy.bound, 0
        deadline = time.monotonic() + seconds
        for _ in range(MAX_ROUNDS):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            self._start_from(best)
            found = self._run(left)
            if found is None:
                break
            chosen, proven, limit = found
            bound = min(bound, limit)
            cycles = self._problem.cycles(chosen)
            objective = sum(self._problem.gains[j] for j in chosen)
            if not cycles and objective >= best.objective - NEGLIGIBLE:
                best = Choice(tuple(chosen), "feasible", objective, bound)
                if proven:
                    return Choice(best.chosen, "optimal", objective, objective, cuts, self._name)
                break
            mended = solve_greedily(self._problem, chosen)  # without the patterns that close cycles
            if self._problem.saved(mended.chosen) >= self._problem.least_saved:
                best = max(best, mended, key=lambda choice: choice.objective)
            for cycle in cycles:
                self._forbid(cycle, len(cycle) - 1)
                cuts += 1
            if not cycles:
                break
        bound = max(bound, best.objective)
        status = "optimal" if bound - best.objective <= NEGLIGIBLE else "feasible"
        return Choice(best.chosen, status, best.objective, bound, cuts, self._name)

    def _start_from(self, choice: Choice) -> None:
        chosen = set(choice.chosen)
        for j, variable in self._x.items():
            variable.setInitialValue(int(j in chosen))

    def _run(self, seconds: float) -> tuple[list[int], bool, float] | None:
        """Chosen candidates, whether they are proven best, and the most that any choice can gain; None if the solver
        fails."""
        pulp = self._pulp
        solver = solver_of(pulp, self._name, seconds, _gap(self._problem))
        status = run_foreign(lambda: self._lp.solve(solver))
        if status != pulp.LpStatusOptimal:
            return None
        chosen = [j for j, v in self._x.items() if (v.value() or 0) > 0.5]
        if self._lp.sol_status == pulp.LpSolutionOptimal:
            return chosen, True, sum(self._problem.gains[j] for j in chosen)
        return chosen, False, self._limit(seconds)

    def _limit(self, seconds: float) -> float:
        """The solver's bound: HiGHS' own, else that of the relaxed program."""
        if self._name == "HiGHS":
            return -dual_bound(self._lp)  # pulp hands HiGHS the negated objective
        relaxed = self._lp.copy()
        if relaxed.solve(self._pulp.PULP_CBC_CMD(msg=False, mip=False, timeLimit=seconds)) != 1:
            return float("inf")
        return float(self._pulp.value(relaxed.objective))


def program_name(pulp: ModuleType) -> str:
    """The solver that is installed: "HiGHS", or "CBC", which comes with pulp."""
    return "HiGHS" if pulp.HiGHS().available() else "CBC"


def new_variable(pulp: ModuleType, lp: Any, name: str, binary: bool = True) -> Any:
    """A variable of a program, of 0 and 1 or from 0. pulp orders them by name."""
    cat = pulp.LpBinary if binary else pulp.LpContinuous
    if hasattr(lp, "add_variable"):  # pulp 3.3 deprecates the other way
        return lp.add_variable(name, lowBound=0, cat=cat)
    return pulp.LpVariable(name, lowBound=0, cat=cat)


def dual_bound(lp: Any) -> float:
    """HiGHS' bound of a minimum that it has looked for."""
    return float(lp.solverModel.getInfo().mip_dual_bound)


def solver_of(pulp: ModuleType, name: str, seconds: float, gap: float) -> Any:
    """HiGHS in process where it is installed, else the CBC program that comes with pulp; one thread: the same program
    has the same answer.

    Args:
        gap: part of the objective that an answer may lack.
    """
    if name == "CBC":
        return pulp.PULP_CBC_CMD(msg=False, timeLimit=seconds, threads=1, warmStart=True, gapRel=gap)
    return _warm_highs(pulp)(msg=False, timeLimit=seconds, threads=1, gapRel=gap)


@cache
def _warm_highs(pulp: ModuleType) -> Any:
    """pulp's solver class for HiGHS in process, made quiet, and started from a choice: pulp's own does neither."""
    import highspy

    class QuietHighs(highspy.Highs):  # type: ignore[misc]
        def enableCallbacks(self) -> None:
            # HiGHS 1.16 greets on standard output when the constructor sets its callbacks, before pulp can ask for
            # silence.
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()

    class WarmHighs(pulp.HiGHS):  # type: ignore[name-defined, misc]
        def createAndConfigureSolver(self, lp: Any) -> None:
            lp.solverModel = QuietHighs()
            lp.solverModel.setOptionValue("mip_rel_gap", self.gapRel)
            lp.solverModel.setOptionValue("threads", self.threads)
            lp.solverModel.setOptionValue("time_limit", float(self.timeLimit))

        def callSolver(self, lp: Any) -> None:
            start = lp.solverModel.getSolution()
            start.col_value = [float(v.varValue) for v in lp.variables()]
            lp.solverModel.setSolution(start)
            lp.solverModel.run()

    return WarmHighs


def _exclusive(problem: Selection) -> list[tuple[int, ...]]:
    """Candidates of which one at most may be taken: those of each position, without sets that others contain."""
    holders: dict[int, list[int]] = {}
    for j in problem.useful:
        for p in problem.candidates[j]:
            holders.setdefault(p, []).append(j)
    cliques = sorted({tuple(js) for js in holders.values() if len(js) > 1}, key=lambda c: (-len(c), c))
    of: dict[int, list[frozenset[int]]] = {}
    kept: list[tuple[int, ...]] = []
    for clique in cliques:
        members = frozenset(clique)
        if any(members <= larger for larger in of.get(clique[0], ())):
            continue
        kept.append(clique)
        for j in clique:
            of.setdefault(j, []).append(members)
    return kept
