"""A plan cut short, to find the pattern that makes a result differ (TF_STITCH_FUEL)."""

from __future__ import annotations

from tf_stitch.ir.graph import Node, users_of
from tf_stitch.planning.dependence import dependencies, order_groups, update_edges
from tf_stitch.planning.free_nodes import free_nodes, live_out, plannable
from tf_stitch.planning.pattern import Pattern, make_pattern
from tf_stitch.planning.pattern_kind import attention_of
from tf_stitch.planning.stitch_plan import StitchPlan


def fused(pattern: Pattern) -> bool:
    """Whether fuel counts a pattern: a kernel or a library call of more than one node."""
    return len(pattern.nodes) > 1


def limit_patterns(plan: StitchPlan, count: int) -> StitchPlan:
    """The plan with its first `count` fused patterns; the nodes of the others get a kernel or a library call each, and
    so do views that only those others could read as they lie."""
    counted = [pattern for pattern in plan.patterns if fused(pattern)]
    first = counted[:max(count, 0)]
    nodes = plan.graph.nodes()
    users, wanted = users_of(nodes), frozenset(live_out(plan.graph))
    free = free_nodes(nodes, filter(None, map(attention_of, first)), wanted, plan.libraries)
    work = plannable(plan.graph, free)
    place = {node: i for i, node in enumerate(work)}
    groups = [[place[node] for node in pattern.nodes] for pattern in first]
    inside = {p for group in groups for p in group}
    groups += [[p] for p in range(len(work)) if p not in inside]

    def pattern_of(group: list[int]) -> Pattern:
        members: list[Node] = [work[p] for p in group]
        return make_pattern(members, users, wanted, free)

    order = order_groups(groups, dependencies(nodes, work), update_edges(plan.graph, nodes, work))
    return StitchPlan(plan.graph, [pattern_of(groups[g]) for g in order], plan.solver, free, plan.libraries)
