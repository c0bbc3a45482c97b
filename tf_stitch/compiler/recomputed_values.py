"""Values that are computed again where they are read late, so that a step takes less memory.

Which, planning/memory.py chooses. Kernels of their own compute them, or their readers do so themselves
(recomputing_plan.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tf_stitch.compiler.budget_bytes import bytes_of
from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.compiler.memory_problem import Barred, planned_values
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.recomputing_plan import recomputing_plan
from tf_stitch.compiler.stored_choices import StoredChoice, StoredChoices
from tf_stitch.config import MemoryBudget
from tf_stitch.errors import ScheduleError
from tf_stitch.pass_manager import Pass, PassResult, run_passes
from tf_stitch.placement.storage import with_lifetimes
from tf_stitch.planning.memory_program import MemorySolver, most
from tf_stitch.planning.stitch_plan import StitchPlan

ROUNDS = 6
"""Choices that are tried: kernels may be ordered otherwise, or written elsewhere, than the problem knows."""


@dataclass(frozen=True)
class RecomputedValues:
    """Keeps a plan to a budget of memory, as far as that can be. After storage is decided, before values are placed.

    Attributes:
        queued: kernels that wait for nothing run as soon as they can.
        solver, seconds: which solver chooses ("ilp" or "greedy"), and its time limit.
        make: passes that make the kernels of the changed plan and decide their storage.
        stored: choices of earlier processes.
    """

    budget: MemoryBudget
    compiler: PatternCompiler
    queued: bool
    solver: str
    seconds: float
    make: tuple[Pass[KernelPlan], ...]
    stored: StoredChoices | None = None
    name: str = "recomputed_values"

    def run(self, kernels: KernelPlan) -> PassResult[KernelPlan]:
        given = replace(kernels, storage=with_lifetimes(kernels.buffers))
        budget = bytes_of(self.budget, given)
        if given.buffers.live_bytes <= budget:
            return PassResult(kernels, modified=False)
        made = self._known(given, budget) or self._searched(given, budget)
        if made is None:
            return PassResult(kernels, modified=False)
        return PassResult(replace(made, unlimited=given), modified=True)

    def _known(self, given: KernelPlan, budget: int) -> KernelPlan | None:
        """The plan that an earlier process chose."""
        known = None if self.stored is None else self.stored.recall(given, budget)
        if self.stored is None or known is None:
            return None
        planned, made = planned_values(given, self.compiler, self.queued, known.barred), None
        if planned.problem.allows(known.choice):
            made = self._made(given, recomputing_plan(given.plan, planned, known.choice).plan)
        if made is None or made.buffers.live_bytes != known.live_bytes:
            self.stored.discard(given, budget)
            return None
        return made

    def _searched(self, given: KernelPlan, budget: int) -> KernelPlan | None:
        """The smallest plan of those that are tried until one keeps to the budget; None if none is smaller."""
        best = min(self._tried(given, budget), key=lambda tried: tried.stored.live_bytes, default=None)
        if best is None or best.stored.live_bytes >= given.buffers.live_bytes:
            return None
        if self.stored is not None and best.is_as_asked:
            self.stored.keep(given, budget, best.stored)
        return best.kernels

    def _tried(self, given: KernelPlan, budget: int) -> Iterator[_Tried]:
        """Plans of choices, each of a target that is smaller by what the one before took too much."""
        barred: Barred = frozenset()
        solver, target = None, budget
        for _ in range(ROUNDS):
            if solver is None:
                planned = planned_values(given, self.compiler, self.queued, barred)
                solver = MemorySolver(planned.problem, self.solver)
            found = solver.solve(target, self.seconds)
            if found.choice == planned.problem.all_kept:
                return
            changed = recomputing_plan(given.plan, planned, found.choice)
            if more := set(changed.changed_sums(self.compiler)):
                barred, solver = barred | more, None
                continue
            made = self._made(given, changed.plan)
            if made is None:
                return
            live = made.buffers.live_bytes
            is_as_asked = found.status != "greedy" or self.solver == "greedy"
            yield _Tried(made, StoredChoice(found.choice, barred, live), is_as_asked)
            if live <= budget or found.peak > most(target):  # which is the least there is
                return
            target -= live - budget

    def _made(self, given: KernelPlan, plan: StitchPlan) -> KernelPlan | None:
        """The kernels of a changed plan, by lifetimes; None where there is no kernel, or rows of a tensor would lie
        elsewhere: what there is does then."""
        try:
            made = run_passes(replace(given, plan=plan), self.make)
            return replace(made, storage=with_lifetimes(made.buffers))
        except ScheduleError:
            return None


@dataclass(frozen=True)
class _Tried:
    """A plan of a choice.

    Attributes:
        is_as_asked: the solver that was asked for has chosen.
    """

    kernels: KernelPlan
    stored: StoredChoice
    is_as_asked: bool
