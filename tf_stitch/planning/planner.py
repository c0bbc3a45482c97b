"""From a static region graph to a stitch plan."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeAlias

from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.ir.levels import find_levels
from tf_stitch.ir.text_format import structural_key
from tf_stitch.libraries.call import Library
from tf_stitch.planning import ilp_solver
from tf_stitch.planning.attention_choice import chosen_attentions
from tf_stitch.planning.called_attention import called_attentions
from tf_stitch.planning.candidates import GrowthOptions, candidates
from tf_stitch.planning.decomposition import decompose, inner_edges
from tf_stitch.planning.dependence import Edge, dependencies, order_groups, update_edges
from tf_stitch.planning.epilogues import Epilogues
from tf_stitch.planning.free_nodes import free_nodes, live_out, plannable
from tf_stitch.planning.greedy_solver import solve_greedily
from tf_stitch.planning.matmul_choice import MatmulChoice, Stitching
from tf_stitch.planning.matmul_sizes import needs_library
from tf_stitch.planning.merging import MergeOptions
from tf_stitch.planning.part import Part, PatternTimes, RegionFacts, bits, mask_of
from tf_stitch.planning.pattern import make_pattern
from tf_stitch.planning.selection import Choice, Selection
from tf_stitch.planning.solver_report import SolverReport
from tf_stitch.planning.stitch_plan import StitchPlan

FEW = 100
"""Candidates of a part that are all timed at once."""
REGROWN = 4
"""How often candidates are grown again where exact times refuse what estimates led to."""
CLOSE, LONG = 0.03, 1000
"""Part of the gain that estimates promise beyond what is known, and that more exact times are not worth; nodes of
patterns timed for a part until then."""
EXHAUSTIVE = 300
"""Candidates of a part that are all timed if estimates keep misleading."""


@dataclass(frozen=True)
class PlanOptions:
    """How a region is planned.

    Attributes:
        solver: "ilp" or "greedy".
        seconds: limit of one part's integer programs.
        rounds: programs solved for a part until every chosen pattern has an exact time; 0: estimates are believed, but
            for patterns that are no kernels.
        singles: nodes of a part that are timed exactly, to scale the estimates.
        barriers: GPU: kernels may be fused by grid barriers (compiler/cooperative_fusion.py).
        nodes_timed: nodes of the patterns that are timed exactly for a region. Then what is known has to do: estimates
            for parts that were not begun. Counted, not timed: the same region has the same plan.
        matmuls: which matmuls become kernels of ours, with what is around them.
        careful: regions of more nodes than this, equal parts counted once, are planned in fast mode: rounds is 0,
            merging goes over them once, and nothing is explored.
    """

    solver: str = "ilp"
    seconds: float = 2.0
    rounds: int = 40
    singles: int = 16
    barriers: bool = True
    nodes_timed: int = 10_000
    matmuls: Stitching = Stitching.NONE
    careful: int = 2000
    growth: GrowthOptions = field(default_factory=GrowthOptions)

    def in_fast_mode(self) -> PlanOptions:
        growth = replace(self.growth, exploratory=False, merge=MergeOptions(thorough=False, size=FAST_MODE_NODES))
        return replace(self, rounds=0, singles=4, growth=growth)


FAST_MODE_NODES = 32
"""Most nodes of a merged pattern in a large region: times of larger ones take longer than they are worth."""


Key: TypeAlias = tuple[object, ...]
"""Equal for parts that are planned alike."""


class PartPlan(NamedTuple):
    """Groups of places in a part, and how they were found."""

    groups: list[tuple[int, ...]]
    report: SolverReport


def plan_region(graph: TensorGraph, times: PatternTimes, libraries: tuple[Library, ...],
                options: PlanOptions | None = None) -> StitchPlan:
    """Covers every node that has work in it by patterns, each one kernel or one library call.

    Attentions that are faster as one kernel are one (attention_choice.py). The rest is cut into parts
    (decomposition.py); parts of equal structure are planned once (F13). Library calls then take over what follows their
    matmuls where that pays (epilogues.py), or become kernels with what is around them (matmul_choice.py).

    Args:
        libraries: of the device; their calls compute what no kernel holds.

    Raises:
        ScheduleError: a node that no kernel family takes even alone.
    """
    options = options or PlanOptions()
    nodes = graph.nodes()
    users, wanted = users_of(nodes), frozenset(live_out(graph))
    attentions = list(chosen_attentions(nodes, users, wanted, times))
    facts = RegionFacts(users, wanted, free_nodes(nodes, attentions, wanted, libraries), libraries)
    work = plannable(graph, facts.free)
    needs, wishes = dependencies(nodes, work), update_edges(graph, nodes, work)
    place = {node: p for p, node in enumerate(work)}
    groups = [tuple(place[node] for node in attention.nodes) for attention in (*attentions, *called_attentions(nodes))]
    taken = {p for group in groups for p in group}
    levels = find_levels(nodes, partial(needs_library, libraries=libraries), wanted)
    parts = decompose(work, needs, facts.free, levels, libraries)
    parts = [rest for part in parts if (rest := [p for p in part if p not in taken])]
    found, reports = _plan_parts(parts, work, needs, wishes, facts, times, options)
    groups += found
    epilogues = Epilogues(work, needs, groups, facts, times)
    groups = epilogues.choose()
    stitched = MatmulChoice(work, needs, groups, facts, times, options.matmuls)
    groups = stitched.choose()
    patterns = [make_pattern((work[p] for p in groups[g]), facts.users, facts.wanted, facts.free)
                for g in order_groups(groups, needs, wishes)]
    total = merge_reports(reports)
    total = total and replace(total, kernels=total.kernels - epilogues.kernels - stitched.kernels,
                              epilogues=epilogues.calls)
    return StitchPlan(graph, patterns, total, facts.free, libraries)


def _plan_parts(parts: Sequence[Sequence[int]], work: Sequence[Node], needs: Sequence[Sequence[int]],
                wishes: Sequence[Edge], facts: RegionFacts, times: PatternTimes, options: PlanOptions
                ) -> tuple[list[tuple[int, ...]], list[SolverReport]]:
    """Groups of places, and how they were found; parts of equal structure are planned once.

    Args:
        parts: places in `work`.
        needs: for each place, those that have to come before it.
        wishes: which places should come in this order.
    """
    wishes_of = _wishes_by_part(parts, wishes)
    structures: list[Key | None] = []  # None: a matmul, which is a call alone
    distinct: dict[Key, Part] = {}
    for number, positions in enumerate(parts):
        if needs_library(work[positions[0]], facts.libraries):
            structures.append(None)
            continue
        members = [work[p] for p in positions]
        inner = inner_edges(positions, needs, wishes_of.get(number, ()))
        key = (structural_key(members, make_pattern(members, facts.users, facts.wanted, facts.free).outputs),
               tuple(inner))
        structures.append(key)
        if key not in distinct:
            distinct[key] = Part(members, inner, facts, times)
    if sum(len(part.nodes) for part in distinct.values()) > options.careful:
        options = options.in_fast_mode()
    plans = dict(_plan_distinct(distinct, options))
    groups: list[tuple[int, ...]] = []
    reports: list[SolverReport] = []
    for positions, structure in zip(parts, structures, strict=True):
        if structure is None:
            groups.append(tuple(positions))
            continue
        found, report = plans[structure]
        groups += [tuple(positions[i] for i in group) for group in found]
        reports.append(report)
    return groups, reports


def _plan_distinct(parts: dict[Key, Part], options: PlanOptions) -> Iterator[tuple[Key, PartPlan]]:
    """Plans of parts, those of the fewest nodes first: most parts are looked at with care."""
    left = options.nodes_timed
    for key, part in sorted(parts.items(), key=lambda item: len(item[1].nodes)):
        yield key, plan_part(part, replace(options, nodes_timed=left) if left > 0 else replace(options, rounds=0))
        left -= part.nodes_timed


def _wishes_by_part(parts: Sequence[Sequence[int]], wishes: Sequence[Edge]) -> dict[int, list[Edge]]:
    home = {p: number for number, part in enumerate(parts) for p in part}  # attentions are of none
    inside: dict[int, list[Edge]] = {}
    for a, b in wishes:
        if a in home and home[a] == home.get(b):
            inside.setdefault(home[a], []).append((a, b))
    return inside


def plan_part(part: Part, options: PlanOptions) -> PartPlan:
    """Covers a part by patterns.

    Gains start as estimates, unless there are few patterns. Those that the solver chooses are timed exactly, and nodes
    that it leaves alone, and the problem is solved again, until it chooses nothing that is not exact: kernels are made
    for those patterns only that matter. The program may take no more kernels than the greedy choice. When the rounds
    are over, or more of them are not worth it (CLOSE), or `nodes_timed` is spent, the best of what is exact is taken,
    and the bound tells what that may have cost; where nothing is known by then, all are timed if they are few.

    Raises:
        ScheduleError: a node that no kernel family takes even alone.
    """
    for i, node in enumerate(part.nodes):
        if part.estimate(1 << i) is None:
            raise ScheduleError(f"no kernel family and no library takes {node.kind.value} on {node.type}", node.loc)
    part.calibrate(options.singles)
    choosing = _Choosing(part, options)
    choosing.time_what_is_chosen()
    if options.rounds:
        choosing.settle()
    plan = _covering(part, choosing.choice, choosing.greedy, _sets(choosing.masks), options)
    return plan if options.rounds else _repaired(part, plan, options)


class _Choosing:
    """The choice among the candidates of a part, while ever more of their times are exact.

    Attributes:
        masks: the candidates.
        choice, greedy: what the solver, and what the greedy choice, takes of them.
    """

    choice: Choice
    greedy: Choice

    def __init__(self, part: Part, options: PlanOptions) -> None:
        self._part, self._options, self._edges = part, options, tuple(part.edges)
        self.masks = candidates(part, options.growth)
        if options.rounds and len(self.masks) <= FEW:
            self.masks = _confirmed(part, self.masks, options.growth)
        self._unsure: list[int] = []  # chosen by estimates
        self._spoilt: list[int] = []  # sets that are no kernels, nor are those that hold them
        self._known = 0.0  # gain of the best choice whose times are all exact
        self._solve()

    def time_what_is_chosen(self) -> None:
        """Times the chosen patterns exactly and chooses again, until nothing chosen is estimated or rounds are over."""
        part = self._part
        for _ in range(self._options.rounds):
            kernels = {mask for one in (self.choice, self.greedy) for mask in _kernels(part, self.masks, one)}
            self._unsure = [mask for mask in kernels if not part.is_exact(mask)]
            if not self._unsure or self._is_close or (part.nodes_timed > self._options.nodes_timed and self._known):
                break
            part.confirm(self._unsure)
            refused = [mask for mask in self._unsure if part.exact(mask) is None]
            if refused:
                self._leave(refused)
            else:
                self._known = max(self._known, *(sum(part.gain(self.masks[j]) or 0.0 for j in one.chosen)
                                                 for one in (self.choice, self.greedy)))
            self._solve()

    def settle(self) -> None:
        """Takes the best of what is exact; where nothing is known yet, all candidates are timed if they are few."""
        part = self._part
        if self._unsure and not self._known and len(self.masks) <= EXHAUSTIVE:
            for mask in self.masks:
                part.exact(mask)
            self._solve()
        if not all(part.is_exact(self.masks[j]) for j in self.choice.chosen):
            bound = self.choice.bound
            self._solve(exact_only=True)
            status = "feasible" if self.choice.status == "optimal" else self.choice.status
            self.choice = replace(self.choice, status=status, bound=bound)

    @property
    def _is_close(self) -> bool:
        """Whether more rounds are not worth what they take."""
        return self._part.nodes_timed > LONG and self.choice.objective <= self._known * (1 + CLOSE)

    def _leave(self, refused: Sequence[int]) -> None:
        """Leaves out sets that hold what no kernel is, and grows others."""
        part = self._part
        self._spoilt += [_lowest_spoilt(part, self.masks, mask) for mask in refused]
        grown = dict.fromkeys([*self.masks, *candidates(part, self._options.growth)])
        self.masks = [mask for mask in grown if all(mask & core != core for core in self._spoilt)]

    def _solve(self, exact_only: bool = False) -> None:
        part, options = self._part, self._options
        gains = [0.0 if exact_only and not part.is_exact(mask) else part.gain(mask) or 0.0 for mask in self.masks]
        problem = Selection(_sets(self.masks), tuple(gains), len(part.nodes), self._edges)
        self.choice = self.greedy = solve_greedily(problem)
        if options.solver != "greedy":
            problem = replace(problem, least_saved=problem.saved(self.greedy.chosen))
            self.choice = ilp_solver.improve(problem, self.greedy, options.seconds)


def _repaired(part: Part, plan: PartPlan, options: PlanOptions) -> PartPlan:
    """A plan by estimates without patterns that turn out to be no kernels: what is in one of them is planned by itself,
    by exact times. It would become a kernel for each node."""
    careful = replace(options, rounds=PlanOptions.rounds, singles=PlanOptions.singles)
    groups: list[tuple[int, ...]] = []
    for group in plan.groups:
        if len(group) == 1 or part.exact(mask_of(group)) is not None:
            groups.append(group)
            continue
        groups += [tuple(group[i] for i in own) for own in plan_part(part.within(group), careful).groups]
    return PartPlan(groups, replace(plan.report, kernels=len(groups)))


def _sets(masks: Sequence[int]) -> tuple[frozenset[int], ...]:
    return tuple(frozenset(bits(mask)) for mask in masks)


def _lowest_spoilt(part: Part, masks: Sequence[int], refused: int) -> int:
    """The smallest of those candidates within `refused`, each within the next, that is no kernel.

    Merging leaves such a ladder. It is looked through by halves, and what holds its lowest bad rung given up: a loop
    that is unrolled has the same nodes for each step, and the ladder of them all would take a round for every rung.
    """
    rungs = [refused]
    for mask in sorted((m for m in masks if m & refused == m), key=int.bit_count, reverse=True):
        if mask & rungs[-1] == mask != rungs[-1]:
            rungs.append(mask)
    rungs.reverse()
    return rungs[bisect_left(rungs, True, key=lambda mask: part.exact(mask) is None)]


def _confirmed(part: Part, masks: list[int], growth: GrowthOptions) -> list[int]:
    """Candidates with exact times. Where these refuse what estimates led to, patterns are grown again around it: sets
    grow from smaller ones, so that one node which spoils a kernel spoils all that were grown from there. The others are
    estimated as before, or the spoilt ones would make them all look bad."""
    part.confirm(masks, scale=False)
    for _ in range(REGROWN):
        if all((part.gain(mask) or 0.0) > 0 for mask in masks):
            break
        fresh = [mask for mask in candidates(part, growth) if not part.is_exact(mask)]
        if not fresh:
            break
        part.confirm(fresh, scale=False)
        masks = [*masks, *fresh]
    return [mask for mask in masks if (part.gain(mask) or 0.0) > 0]


def _kernels(part: Part, masks: Sequence[int], choice: Choice) -> list[int]:
    """What the choice makes of a part: chosen patterns, and nodes in none of them alone."""
    chosen = [masks[j] for j in choice.chosen]
    return [*chosen, *(1 << i for i in bits(part.everything & ~sum(chosen)))]


def _covering(part: Part, choice: Choice, greedy: Choice, sets: Sequence[frozenset[int]],
              options: PlanOptions) -> PartPlan:
    covered = {p for j in choice.chosen for p in sets[j]}
    groups = [tuple(sorted(sets[j])) for j in choice.chosen]
    groups += [(i,) for i in range(len(part.nodes)) if i not in covered]
    merged = sum(len(sets[j]) - 1 for j in greedy.chosen)
    report = SolverReport(options.solver, choice.status, choice.objective, choice.bound, greedy.objective, len(sets),
                          choice.cuts, len(groups), len(part.nodes) - merged, choice.program,
                          estimated=int(not options.rounds))
    return PartPlan(groups, report)


def merge_reports(reports: Sequence[SolverReport]) -> SolverReport | None:
    """One report of several parts; None of none. Its status is the least sure of theirs."""
    if not reports:
        return None
    worst = next((s for s in ("greedy", "feasible") if any(r.status == s for r in reports)), "optimal")
    programs = Counter(r.program for r in reports if r.program)
    return SolverReport(reports[0].solver, worst, sum(r.objective_us for r in reports),
                        sum(r.bound_us for r in reports), sum(r.greedy_us for r in reports),
                        sum(r.candidates for r in reports), sum(r.cycle_cuts for r in reports),
                        sum(r.kernels for r in reports), sum(r.greedy_kernels for r in reports),
                        "+".join(sorted(programs)), sum(r.parts for r in reports),
                        sum(r.estimated for r in reports))
