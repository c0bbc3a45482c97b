"""A plan as numbers: the places of each pattern's nodes in their graph, from which a plan of an equal graph is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tf_stitch.ir.graph import TensorGraph, users_of
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
    users, wanted = users_of(nodes), frozenset(live_out(graph))
    members = [[nodes[i] for i in group] for group in groups]
    alone = (make_pattern(group, users, wanted, frozenset()) for group in members)
    found = [attention for pattern in alone if (attention := attention_of(pattern)) is not None]
    free = free_nodes(nodes, found, wanted, libraries)
    planned, work = [n for group in members for n in group], plannable(graph, free)
    if len(planned) != len(work) or set(planned) != set(work):
        raise ValueError("not every node is in one pattern")
    patterns = [make_pattern(group, users, wanted, free) for group in members]
    return StitchPlan(graph, patterns, solver, free, libraries)


def in_order(plan: StitchPlan) -> StitchPlan:
    """The plan, its patterns put in an order in which they can run.

    Raises:
        ValueError: they need each other.
    """
    nodes, work = plan.graph.nodes(), plannable(plan.graph, plan.free)
    position = {node: i for i, node in enumerate(work)}
    order = order_groups([[position[node] for node in pattern.nodes] for pattern in plan.patterns],
                         dependencies(nodes, work), update_edges(plan.graph, nodes, work))
    plan.patterns = [plan.patterns[i] for i in order]
    return plan
