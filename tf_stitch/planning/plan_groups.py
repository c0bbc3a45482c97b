"""A plan as numbers: the places of each pattern's nodes in their graph, from which a plan of an equal graph is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.libraries.call import Library
from tf_stitch.libraries.registry import LIBRARIES
from tf_stitch.planning.dependence import dependencies, order_groups, update_edges
from tf_stitch.planning.free_nodes import free_nodes, live_out, plannable
from tf_stitch.planning.pattern import make_pattern
from tf_stitch.planning.pattern_kind import attention_of
from tf_stitch.planning.solver_report import SolverReport
from tf_stitch.planning.stitch_plan import StitchPlan

Groups: TypeAlias = Sequence[Sequence[int]]


def groups_of(plan: StitchPlan) -> list[list[int]]:
    """Places of each pattern's nodes in `plan.graph.nodes()`."""
    place = {n: i for i, n in enumerate(plan.graph.nodes())}
    return [[place[n] for n in pattern.nodes] for pattern in plan.patterns]


def plan_of(graph: TensorGraph, groups: Groups, solver: SolverReport | None,
            libraries: tuple[Library, ...] = LIBRARIES) -> StitchPlan:
    """The plan of a graph of the structure of that which the groups were made for, with the same libraries.

    Raises:
        IndexError: the graph has fewer nodes than that one.
        ValueError: in this graph other nodes are free: one element may have become many.
    """
    nodes = graph.nodes()
    return _plan(graph, [[nodes[i] for i in group] for group in groups], solver, libraries)


def plan_with(graph: TensorGraph, groups: Iterable[Sequence[Node]], solver: SolverReport | None,
              libraries: tuple[Library, ...] = LIBRARIES) -> StitchPlan:
    """The plan of a graph whose patterns are groups of its nodes, operands first, without what is free in it. A reshape
    that was free in another graph, and in none of the groups, is computed with what it reshapes.

    Raises:
        ValueError: another node that needs a kernel is in no group.
    """
    members = [list(group) for group in groups]
    work = dict.fromkeys(plannable(graph, _free_nodes(graph, members, libraries)))
    members = [[node for node in group if node in work] for group in members]
    home = {node: group for group in members for node in group}
    for node in work:
        if node not in home and node.kind is OpKind.RESHAPE and node.operands[0] in home:
            home[node] = home[node.operands[0]]
            home[node].append(node)
    return _plan(graph, [group for group in members if group], solver, libraries)


def _plan(graph: TensorGraph, groups: Sequence[Sequence[Node]], solver: SolverReport | None,
          libraries: tuple[Library, ...]) -> StitchPlan:
    users, wanted = users_of(graph.nodes()), frozenset(live_out(graph))
    free = _free_nodes(graph, groups, libraries)
    planned, work = [n for group in groups for n in group], plannable(graph, free)
    if len(planned) != len(work) or set(planned) != set(work):
        raise ValueError("not every node is in one pattern")
    patterns = [make_pattern(group, users, wanted, free) for group in groups]
    return StitchPlan(graph, patterns, solver, free, libraries)


def _free_nodes(graph: TensorGraph, groups: Iterable[Sequence[Node]], libraries: tuple[Library, ...]
                ) -> frozenset[Node]:
    nodes = graph.nodes()
    users, wanted = users_of(nodes), frozenset(live_out(graph))
    alone = (make_pattern(group, users, wanted, frozenset()) for group in groups)
    found = [attention for pattern in alone if (attention := attention_of(pattern)) is not None]
    return free_nodes(nodes, found, wanted, libraries)


def in_order(plan: StitchPlan) -> StitchPlan:
    """The plan, its patterns put in an order in which they can run, those of `graph.after` behind what they come after.

    Raises:
        ValueError: they need each other.
    """
    nodes, work = plan.graph.nodes(), plannable(plan.graph, plan.free)
    position = {node: i for i, node in enumerate(work)}
    needs = [list(needed) for needed in dependencies(nodes, work)]
    for late, early in plan.graph.after.items():
        needs[position[late]].append(position[early])
    order = order_groups([[position[node] for node in pattern.nodes] for pattern in plan.patterns], needs,
                         update_edges(plan.graph, nodes, work))
    plan.patterns = [plan.patterns[i] for i in order]
    return plan
