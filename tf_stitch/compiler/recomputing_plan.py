"""A plan in which values are computed again, right before they are read, by copies of their nodes.

No pass over tensor graphs comes after this, which would merge equal nodes again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

from tf_stitch.compiler.memory_problem import PlannedValues
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.recipes import Recipe, adds_alike, is_order_dependent
from tf_stitch.ir.graph import Node, TensorGraph, make_node, users_of, with_operands
from tf_stitch.ir.op_attrs import CastAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.text_format import structural_key
from tf_stitch.planning.free_nodes import live_out
from tf_stitch.planning.memory import Choice, How
from tf_stitch.planning.pattern import Pattern, make_pattern
from tf_stitch.planning.stitch_plan import StitchPlan

Due: TypeAlias = Mapping[Node, How]
"""Values that are computed again at one time."""


@dataclass(frozen=True)
class Successor:
    """What became of a pattern.

    Attributes:
        now: None where nobody reads what it computed.
        due: what is computed again when it runs.
        written: what stands for each of its outputs.
    """

    before: Pattern
    now: Pattern | None
    due: Due
    written: Mapping[Node, Node]


@dataclass(frozen=True)
class RecomputingPlan:
    """A changed plan, and what became of the patterns of the given one."""

    plan: StitchPlan
    successors: tuple[Successor, ...]

    def changed_sums(self, compiler: PatternCompiler) -> Iterator[tuple[Node, Pattern | None]]:
        """Values by which kernels would add in another order than before, and who would: who computes them in passing
        (a pattern), or who does not write them any more (None)."""
        for one in self.successors:
            before, now = one.before, one.now
            if now is None or not is_order_dependent(before) or _is_alike(before, now) \
                    or adds_alike(compiler, now, before):
                continue
            yield from ((value, before) for value, how in one.due.items() if how is How.PASSING)
            yield from ((value, None) for value in before.outputs if one.written[value] not in now.outputs)


def _is_alike(one: Pattern, other: Pattern) -> bool:
    return structural_key(one.nodes, one.outputs) == structural_key(other.nodes, other.outputs)


def recomputing_plan(plan: StitchPlan, planned: PlannedValues, choice: Choice) -> RecomputingPlan:
    """The plan that does as a choice says: patterns one after the other, in the order of their times; what they read is
    what is there then. Values that nobody reads any more are not computed."""
    due, copies = _due(planned, choice), _Copies(plan, planned.recipes)
    order = sorted(range(len(plan.patterns)), key=lambda i: (planned.times[i], i))
    for time, numbers in groupby(order, key=planned.times.__getitem__):
        copies.come_to(time, due.get(time, {}))
        for i in numbers:
            copies.add(i)
    graph = TensorGraph(plan.graph.name, [(key, copies.end(node)) for key, node in plan.graph.outputs],
                        plan.graph.unread)
    begun = [(planned.times[i], copies.first[node]) for i in order for node in plan.patterns[i].outputs]
    graph.after.update(_turns(graph, plan.graph.after, copies.first))
    graph.after.update(_barriers(graph, copies.late, begun, planned.lag))
    free = plan.free.union(copies.views.values())
    patterns = _patterns(graph, copies.groups, free)
    successors = tuple(Successor(before, patterns[copies.group_of[i]], due.get(planned.times[i], {}),
                                 {node: copies.first[node] for node in before.outputs})
                       for i, before in enumerate(plan.patterns))
    made = [pattern for pattern in patterns if pattern is not None]
    return RecomputingPlan(StitchPlan(graph, made, plan.solver, free, plan.libraries), successors)


def _due(planned: PlannedValues, choice: Choice) -> dict[int, dict[Node, How]]:
    """What is computed again, by time."""
    due: dict[int, dict[Node, How]] = {}
    for node, value, hows in zip(planned.values, planned.problem.values, choice, strict=True):
        for use, how in zip(value.uses, hows, strict=True):
            if how in (How.AGAIN, How.PASSING):
                due.setdefault(use.time, {})[node] = how
    return due


def _turns(graph: TensorGraph, after: Mapping[Node, Node], first: Mapping[Node, Node]) -> Iterator[tuple[Node, Node]]:
    """What comes after what, in the given plan, too; what came after a value that nobody computes comes after its own.

    Args:
        first: what stands for each node.
    """
    there = set(graph.nodes())
    for late, given in after.items():
        early: Node | None = given
        while early is not None and first[early] not in there:
            early = after.get(early)
        if early is not None and first[late] in there:
            yield first[late], first[early]


def _barriers(graph: TensorGraph, late: Mapping[Node, int], begun: Sequence[tuple[int, Node]], lag: int
              ) -> Iterator[tuple[Node, Node]]:
    """What is computed again, and after what: the last that is computed before it is due.

    Args:
        late: when it is due.
        begun: when values are computed first, in order.
        lag: times before it is read at which a kernel may compute a value again.
    """
    there = set(graph.nodes())
    begun = [(time, node) for time, node in begun if node in there]
    for node, time in late.items():
        before = bisect_left(begun, time - lag, key=itemgetter(0))
        if before and node in there:
            yield node, begun[before - 1][1]


def _patterns(graph: TensorGraph, groups: Sequence[Sequence[Node]], free: frozenset[Node]) -> list[Pattern | None]:
    """A pattern of each group, of the nodes that somebody reads, operands first; None where there are none."""
    nodes = graph.nodes()
    place = {node: i for i, node in enumerate(nodes)}
    users, wanted = users_of(nodes), frozenset(live_out(graph))
    read = (sorted((node for node in group if node in place), key=place.__getitem__) for group in groups)
    return [make_pattern(group, users, wanted, free) if group else None for group in read]


class _Copies:
    """The nodes of the changed plan.

    Attributes:
        first: what stands for each node where it is computed first.
        late: values that are computed again, and when they are read.
        views: what stands for free nodes of other operands.
        groups: what is computed together; `group_of`: the number of a pattern's.
    """

    def __init__(self, plan: StitchPlan, recipes: Mapping[Node, Recipe]) -> None:
        self._plan, self._recipes = plan, recipes
        self._members = {node for pattern in plan.patterns for node in pattern.nodes}
        self._now: dict[Node, Node | None] = {}  # what stands for a value now; None: its readers compute it
        self.first: dict[Node, Node] = {}
        self.late: dict[Node, int] = {}
        self.views: dict[tuple[Node, tuple[Node, ...]], Node] = {}
        self.groups: list[list[Node]] = []
        self.group_of: dict[int, int] = {}

    def come_to(self, time: int, due: Due) -> None:
        """Computes again what is due."""
        self._now |= {node: None for node, how in due.items() if how is How.PASSING}
        waiting = [node for node, how in due.items() if how is How.AGAIN]

        def compute(node: Node) -> None:
            if node in waiting:
                waiting.remove(node)
                for source in self._recipes[node].sources:
                    compute(source)
                self._now[node] = made = self._copy(self._recipes[node], {}, self._new_group())
                self.late[made] = time

        while waiting:
            compute(waiting[0])

    def add(self, number: int) -> None:
        """A pattern of the plan, by its number, of what is there now."""
        own: dict[Node, Node] = {}
        self.group_of[number], group = len(self.groups), self._new_group()
        for node in self._plan.patterns[number].nodes:
            own[node] = with_operands(node, tuple(self._read(o, own, group) for o in node.operands))
            group.append(own[node])
        self.first |= {node: own[node] for node in self._plan.patterns[number].nodes}

    def end(self, node: Node) -> Node:
        """What stands for an output."""
        if node in self.first:
            return self.first[node]
        if node.category is Category.SOURCE:
            return node
        operands = tuple(map(self.end, node.operands))
        return with_operands(node, operands) if node.category is Category.EFFECT else self._view(node, operands)

    def _new_group(self) -> list[Node]:
        self.groups.append([])
        return self.groups[-1]

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
            return self._view(node, tuple(self._read(o, own, group) for o in node.operands))
        found = self._now.get(node, self.first.get(node))
        if found is None:
            own[node] = _as_stored(self._copy(self._recipes[node], own, group), group)
            return own[node]
        return found

    def _view(self, node: Node, operands: tuple[Node, ...]) -> Node:
        """A free node of other operands, once."""
        return self.views.setdefault((node, operands), with_operands(node, operands))


def _as_stored(node: Node, group: list[Node]) -> Node:
    """A value as memory would have it: a half is computed in float32."""
    dtype = node.type.dtype
    if dtype.compute is dtype:
        return node
    group.append(make_node(OpKind.CAST, (node,), CastAttrs(dtype), node.loc))
    return group[-1]
