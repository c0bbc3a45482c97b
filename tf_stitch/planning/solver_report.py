"""What a solver says of the plan that it found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SolverReport:
    """How the plan was found. Gains are predicted microseconds saved against one kernel per node.

    Attributes:
        solver: what was asked for, "ilp" or "greedy".
        status: "optimal", "feasible" (the time ended first) or "greedy", of the least sure part.
        objective_us, bound_us: what the plan gains, and the most that any choice of its candidates could.
        greedy_us, greedy_kernels: gain and kernels of the greedy choice.
        kernels: of the plan, library calls of large matmuls left out; before some are fused by grid barriers.
        program: the solver that ran, "" if none had to.
        parts: planned apart.
        estimated: parts that were planned by estimates, as in fast mode.
        epilogues: library calls that compute more than a matmul.
    """

    solver: str
    status: str
    objective_us: float
    bound_us: float
    greedy_us: float
    candidates: int
    cycle_cuts: int = 0
    kernels: int = 0
    greedy_kernels: int = 0
    program: str = ""
    parts: int = 1
    estimated: int = 0
    epilogues: int = 0

    @property
    def gap(self) -> float:
        """How far below the best possible gain the plan may be, as a part of that."""
        return max(0.0, self.bound_us - self.objective_us) / self.bound_us if self.bound_us > 0 else 0.0
