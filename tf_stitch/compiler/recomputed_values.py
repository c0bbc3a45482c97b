"""Values that are computed again where they are read late, so that a step takes less memory; and rows of a matmul that
are computed piece by piece.

Which values, planning/memory.py chooses. Kernels of their own compute them, or their readers do so themselves
(recomputing_plan.py). Pieces (plan_in_pieces.py) change bits, and take longer: they are for budgets that are not kept
to without.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from tf_stitch.compiler.budget_bytes import bytes_of
from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.compiler.memory_problem import Barred, planned_values
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.plan_in_pieces import plan_in_pieces, wide_matmuls
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
PIECES = (2, 4, 8, 16)
"""That rows are computed in."""
LEAST_SAVED = 0.02
"""Of what a plan takes, that more pieces have to save: each adds to the sums of those before."""


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
        made = self._remade(given, known, budget)
        if made is None or made.buffers.live_bytes != known.live_bytes:
            self.stored.discard(given, budget)
            return None
        return made

    def _remade(self, given: KernelPlan, known: StoredChoice, budget: int) -> KernelPlan | None:
        if known.pieces is not None:
            cut = self._cut(given, *known.pieces)
            fits = cut is None or cut.buffers.live_bytes == known.live_bytes
            return cut if cut is None or fits else self._known(cut, budget)
        planned = planned_values(given, self.compiler, self.queued, known.barred)
        if not planned.problem.allows(known.choice):
            return None
        return self._made(given, recomputing_plan(given.plan, planned, known.choice).plan)

    def _searched(self, given: KernelPlan, budget: int) -> KernelPlan | None:
        """The smallest plan of those that are tried until one keeps to the budget; None if none is smaller than the
        given one."""
        tried = list(self._tried(given, budget))
        if all(one.stored.live_bytes > budget for one in tried):
            tried += self._tried_in_pieces(given, budget)
        best = min(tried, key=lambda one: one.stored.live_bytes, default=None)
        if best is None or best.stored.live_bytes >= given.buffers.live_bytes:
            return None
        if self.stored is not None and best.is_as_asked:
            own = best.stored if best.behind is None else replace(best.stored, choice=(), barred=frozenset())
            self.stored.keep(given, budget, own)
            if best.behind is not None:
                self.stored.keep(best.behind, budget, replace(best.stored, pieces=None))
        return best.kernels

    def _tried_in_pieces(self, given: KernelPlan, budget: int) -> Iterator[_Tried]:
        """Plans of ever more pieces, and of values computed again beside them, until one keeps to the budget or more
        pieces save nothing."""
        least = given.buffers.live_bytes
        for number, pieces in product(range(len(wide_matmuls(given.plan))), PIECES):
            cut = self._cut(given, number, pieces)
            if cut is None:
                continue
            live = cut.buffers.live_bytes
            tried = [_Tried(cut, StoredChoice((), frozenset(), live, (number, pieces)), is_as_asked=True)]
            for one in self._tried(cut, budget) if live > budget else ():
                tried.append(replace(one, stored=replace(one.stored, pieces=(number, pieces)), behind=cut))
            yield from tried
            now = min(one.stored.live_bytes for one in tried)
            if now <= budget or now > (1 - LEAST_SAVED) * least:
                return
            least = now

    def _cut(self, given: KernelPlan, number: int, pieces: int) -> KernelPlan | None:
        """The plan whose wide matmul of a number runs in pieces; None where that cannot be."""
        try:
            [matmul] = wide_matmuls(given.plan)[number:number + 1]
            made = self._made(given, plan_in_pieces(given.plan, matmul, pieces))
        except (ScheduleError, ValueError):  # its rows need others, or the number is another plan's
            return None
        return None if made is None else replace(made, pieces=(matmul, pieces))

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
        behind: the plan in pieces that the choice is of.
    """

    kernels: KernelPlan
    stored: StoredChoice
    is_as_asked: bool
    behind: KernelPlan | None = None
