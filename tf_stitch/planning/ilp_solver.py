"""Chooses patterns by an integer linear program (FusionStitching section 4.1), solved with pulp.

Maximise the sum of X_j * gain_j; patterns that share a node exclude each other; while the contracted graph has a
cycle, the patterns on it are forbidden together and the program is solved again (Fig. 3 of the paper).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulp

from tf_stitch.ir.graph import Node
from tf_stitch.planning.legality import find_cycle

MAX_ROUNDS = 20


@dataclass(frozen=True)
class Choice:
    """Indices of chosen candidates, and how sure the solver is.

    Attributes:
        status: "optimal", "feasible" (time limit; `bound` tells how far off it may be) or "greedy".
        objective, bound: microseconds saved, and the most that could be saved.
    """

    chosen: tuple[int, ...]
    status: str
    objective: float
    bound: float
    cuts: int = 0


def solve(candidates: Sequence[frozenset[Node]], gains: Sequence[float], nodes: Sequence[Node],
          seconds: float) -> Choice | None:
    """The best choice of disjoint candidates whose contraction is acyclic.

    Args:
        nodes: operands first; the graph of the cycle check.
        seconds: time limit of one program.

    Returns:
        None if the solver fails or rounds run out: the caller uses the greedy choice.
    """
    problem = pulp.LpProblem("stitch", pulp.LpMaximize)
    x = [pulp.LpVariable(f"x{j}", cat=pulp.LpBinary) for j in range(len(candidates))]
    problem += pulp.lpSum(g * v for g, v in zip(gains, x, strict=True))
    for node in nodes:
        sharing = [x[j] for j, c in enumerate(candidates) if node in c]
        if len(sharing) > 1:
            problem += pulp.lpSum(sharing) <= 1
    for cuts in range(MAX_ROUNDS):
        status = problem.solve(_solver(seconds))
        if status != pulp.LpStatusOptimal:
            return None
        chosen = tuple(j for j, v in enumerate(x) if (v.value() or 0) > 0.5)
        cycle = find_cycle([candidates[j] for j in chosen], nodes)
        if cycle is None:
            objective = sum(gains[j] for j in chosen)
            proven = problem.sol_status == pulp.LpSolutionOptimal
            bound = objective if proven else sum(max(g, 0.0) for g in gains)
            return Choice(chosen, "optimal" if proven else "feasible", objective, bound, cuts)
        problem += pulp.lpSum(x[chosen[i]] for i in cycle) <= len(cycle) - 1
    return None


def _solver(seconds: float) -> pulp.LpSolver:
    """HiGHS in process where it is installed, else the CBC program that comes with pulp."""
    highs = pulp.HiGHS(msg=False, timeLimit=seconds, threads=1)
    return highs if highs.available() else pulp.PULP_CBC_CMD(msg=False, timeLimit=seconds, threads=1)
