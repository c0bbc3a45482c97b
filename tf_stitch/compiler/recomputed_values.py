"""Values that are computed again where they are read late, so that a step takes less memory.

Which, planning/memory.py chooses. Kernels of their own compute them from copies of their nodes, or their readers do so
themselves. No pass over tensor graphs comes after this one, which would merge equal nodes again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter

from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.compiler.memory_problem import PlannedValues, Recipe, additions, is_order_dependent, planned_values
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.config import MemoryBudget
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import Node, TensorGraph, make_node, users_of, with_operands
from tf_stitch.ir.op_attrs import AssignAttrs, CastAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.text_format import structural_key
from tf_stitch.pass_manager import Pass, PassResult, run_passes
from tf_stitch.placement.executable_format import StateMode
from tf_stitch.placement.liveness import needed
from tf_stitch.placement.memory_profile import memory_profile
from tf_stitch.placement.storage import memory_of, with_lifetimes
from tf_stitch.planning.free_nodes import live_out
from tf_stitch.planning.memory import Choice, How
from tf_stitch.planning.memory_program import MemorySolver, most
from tf_stitch.planning.pattern import Pattern, make_pattern
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
    """

    budget: MemoryBudget
    compiler: PatternCompiler
    queued: bool
    solver: str
    seconds: float
    make: tuple[Pass[KernelPlan], ...]
    name: str = "recomputed_values"

    def run(self, kernels: KernelPlan) -> PassResult[KernelPlan]:
        given = replace(kernels, storage=with_lifetimes(kernels.buffers))
        budget = bytes_of(self.budget, given)
        best = (given.buffers.live_bytes, kernels)
        solver: MemorySolver | None = None
        barred: set[tuple[Node, Pattern | None]] = set()
        target, planned = budget, None
        for _ in range(ROUNDS):
            if best[0] <= budget:
                break
            if planned is None or solver is None:
                planned = planned_values(given, self.compiler, self.queued, barred)
                solver = MemorySolver(planned.problem, self.solver)
            found = solver.solve(target, self.seconds)
            if found.choice == planned.problem.all_kept:
                break
            rewriting = Rewriting(kernels.plan, planned, found.choice)
            if more := set(rewriting.changed_sums(self.compiler)):
                barred, planned = barred | more, None
                continue
            try:
                made = run_passes(replace(kernels, plan=rewriting.plan()), self.make)
                live = with_lifetimes(made.buffers).live_bytes
            except ScheduleError:  # no kernel, or rows of a tensor that would lie elsewhere: what there is does
                break
            if live < best[0]:
                best = live, made
            if found.peak > most(target):  # which is the least there is
                break
            target -= live - budget
        if best[1] is kernels:
            return PassResult(kernels, modified=False)
        return PassResult(replace(best[1], unlimited=given), modified=True)


def bytes_of(budget: MemoryBudget, kernels: KernelPlan) -> int:
    """How many bytes of the arena may be alive at one time.

    Args:
        kernels: as they are planned for the least time; values have places.
    """
    if budget.nbytes is not None:
        return max(0, budget.nbytes - outside_bytes(kernels))
    return kernels.buffers.live_bytes - round((1 - budget.fraction) * waiting_bytes(kernels))


def waiting_bytes(kernels: KernelPlan) -> int:
    """Activations: bytes of the values that are there when most is, though no kernel that runs then touches them."""
    buffers = kernels.buffers
    profile = memory_profile(buffers)
    touched = {memory_of(need.node, buffers) for needs in needed(buffers.kernels, buffers.levels) for need in needs
               if need.first <= profile.peak <= need.last}
    return sum(nbytes for node, nbytes in profile.holders if node not in touched)


def outside_bytes(kernels: KernelPlan) -> int:
    """Bytes of a region's variables, inputs and results."""
    graph, buffers = kernels.plan.graph, kernels.buffers
    taken = [int(node.type.nbytes) for node in graph.inputs()]
    taken += [int(node.type.nbytes) for _, node in graph.outputs if node.kind is not OpKind.ASSIGN]
    fresh = {variable for variable, mode in buffers.state if mode is StateMode.FRESH}
    taken += [int(node.type.nbytes) for _, node in graph.outputs if isinstance(node.attrs, AssignAttrs)
              and buffers.variables.index(node.attrs.handle) in fresh]
    return sum(taken)


class Rewriting:
    """A plan in which values are computed again, right before they are read: patterns one after the other, in the order
    of their times; what they read is what is there then."""

    def __init__(self, plan: StitchPlan, planned: PlannedValues, choice: Choice) -> None:
        self._plan, self._recipes = plan, planned.recipes
        self._members = {node for pattern in plan.patterns for node in pattern.nodes}
        self._first: dict[Node, Node] = {}  # what stands for each node where it is computed first
        self._now: dict[Node, Node | None] = {}  # what stands for a value now; None: its readers compute it
        self._late: dict[Node, int] = {}  # values that are computed again, and when they are read
        self._views: dict[tuple[Node, tuple[Node, ...]], Node] = {}
        self._groups: list[list[Node]] = []
        self._of: list[tuple[Pattern, list[Node], dict[Node, How]]] = []  # patterns, their groups, what is due then
        self._due: dict[int, dict[Node, How]] = {}
        for node, value, hows in zip(planned.values, planned.problem.values, choice, strict=True):
            for use, how in zip(value.uses, hows, strict=True):
                if how in (How.AGAIN, How.PASSING):
                    self._due.setdefault(use.time, {})[node] = how
        order = sorted(range(len(plan.patterns)), key=lambda i: (planned.times[i], i))
        time = -1
        for i in order:
            if planned.times[i] > time:
                time = planned.times[i]
                self._come_to(time)
            self._add(plan.patterns[i], self._due.get(time, {}))
        graph = TensorGraph(plan.graph.name, [(key, self._end(node)) for key, node in plan.graph.outputs],
                            plan.graph.unread)
        there = set(graph.nodes())
        begun = [(planned.times[i], node) for i in order
                 for node in [self._first[n] for n in plan.patterns[i].outputs] if node in there]
        for late, time in self._late.items():
            before = bisect_left(begun, time - planned.lag, key=itemgetter(0))
            if before and late in there:
                graph.after[late] = begun[before - 1][1]
        self._graph = graph

    def _come_to(self, time: int) -> None:
        """Computes again what is due."""
        due = self._due.get(time, {})
        self._now |= {node: None for node, how in due.items() if how is How.PASSING}
        waiting = [node for node, how in due.items() if how is How.AGAIN]

        def compute(node: Node) -> None:
            if node in waiting:
                waiting.remove(node)
                for source in self._recipes[node].sources:
                    compute(source)
                self._now[node] = made = self._computed(self._recipes[node])
                self._late[made] = time

        while waiting:
            compute(waiting[0])

    def _computed(self, recipe: Recipe) -> Node:
        own: dict[Node, Node] = {}
        group: list[Node] = []
        self._groups.append(group)
        return self._copy(recipe, own, group)

    def _copy(self, recipe: Recipe, own: dict[Node, Node], group: list[Node]) -> Node:
        """Copies of what computes a value, in a group; that of the value itself. Inside of it halves are not rounded,
        as they were not where it was computed first."""
        inside = {node: made for node, made in own.items() if node not in recipe.pattern.nodes}
        for node in recipe.pattern.nodes:
            operands = tuple(self._read(o, inside, group) for o in node.operands)
            inside[node] = Node(node.kind, operands, node.attrs, node.type, node.loc)  # and no other
            group.append(inside[node])
        own |= {node: made for node, made in inside.items() if node not in recipe.pattern.nodes}
        return inside[recipe.pattern.outputs[0]]

    def _add(self, pattern: Pattern, due: dict[Node, How]) -> None:
        own: dict[Node, Node] = {}
        group: list[Node] = []
        for node in pattern.nodes:
            own[node] = with_operands(node, tuple(self._read(o, own, group) for o in node.operands))
            group.append(own[node])
        self._first |= {node: own[node] for node in pattern.nodes}
        self._groups.append(group)
        self._of.append((pattern, group, due))

    def _read(self, node: Node, own: dict[Node, Node], group: list[Node]) -> Node:
        """What stands for an operand.

        Args:
            own: what stands for nodes in the group that reads it; gets what that computes in passing.
        """
        if node in own:
            return own[node]
        if node.category is Category.SOURCE:
            return node
        if node not in self._members:
            operands = tuple(self._read(o, own, group) for o in node.operands)
            return self._view(node, operands)
        found = self._now.get(node, self._first.get(node))
        if found is None:
            own[node] = self._as_stored(self._copy(self._recipes[node], own, group), group)
            return own[node]
        return found

    @staticmethod
    def _as_stored(node: Node, group: list[Node]) -> Node:
        """A value as memory would have it: a half is computed in float32."""
        dtype = node.type.dtype
        if dtype.compute is dtype:
            return node
        group.append(make_node(OpKind.CAST, (node,), CastAttrs(dtype), node.loc))
        return group[-1]

    def _end(self, node: Node) -> Node:
        """What stands for an output."""
        if node in self._first:
            return self._first[node]
        if node.category is Category.SOURCE:
            return node
        operands = tuple(map(self._end, node.operands))
        return with_operands(node, operands) if node.category is Category.EFFECT else self._view(node, operands)

    def _view(self, node: Node, operands: tuple[Node, ...]) -> Node:
        """A free node of other operands, once."""
        return self._views.setdefault((node, operands), with_operands(node, operands))

    def plan(self) -> StitchPlan:
        """The new plan. Values that nobody reads any more are not computed."""
        free, users, wanted = self._facts
        patterns = [make_pattern(nodes, users, wanted, free) for group in self._groups if (nodes := self._left(group))]
        return StitchPlan(self._graph, patterns, self._plan.solver, free, self._plan.libraries)

    @cached_property
    def _facts(self) -> tuple[frozenset[Node], dict[Node, list[Node]], frozenset[Node]]:
        """What is free, as what it is a copy of was, users, and what memory has to hold."""
        nodes = self._graph.nodes()
        return self._plan.free.union(self._views.values()), users_of(nodes), frozenset(live_out(self._graph))

    @cached_property
    def _place(self) -> dict[Node, int]:
        return {node: i for i, node in enumerate(self._graph.nodes())}

    def _left(self, group: Iterable[Node]) -> list[Node]:
        """Those that somebody reads, operands first."""
        return sorted((node for node in group if node in self._place), key=self._place.__getitem__)

    def changed_sums(self, compiler: PatternCompiler) -> Iterator[tuple[Node, Pattern | None]]:
        """Values by which kernels would add in another order than before, and who would: who computes them in passing
        (a pattern), or who does not write them any more (None)."""
        free, users, wanted = self._facts
        for pattern, group, due in self._of:
            nodes = self._left(group)
            if not is_order_dependent(pattern) or not nodes:
                continue
            made = make_pattern(nodes, users, wanted, free)
            if structural_key(made.nodes, made.outputs) == structural_key(pattern.nodes, pattern.outputs):
                continue
            try:
                same = additions(compiler.compile(made).schedule) == additions(compiler.compile(pattern).schedule)
            except ScheduleError:
                same = False
            if not same:
                yield from ((value, pattern) for value, how in due.items() if how is How.PASSING)
                yield from ((value, None) for value in pattern.outputs if self._first[value] not in made.outputs)
