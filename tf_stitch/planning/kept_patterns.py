"""A plan cut short, to find the pattern that makes a result differ (TF_STITCH_FUEL)."""

from __future__ import annotations

from dataclasses import replace

from tf_stitch.ir.graph import users_of
from tf_stitch.planning.stitch_plan import Pattern, StitchPlan, delivered, make_pattern


def keep_patterns(plan: StitchPlan, count: int) -> StitchPlan:
    """The plan with its first `count` patterns of more than one node; the nodes of the others get a kernel or a library
    call each."""
    users, wanted = users_of(plan.graph.nodes()), frozenset(delivered(plan.graph))
    patterns: list[Pattern] = []
    for pattern in plan.patterns:
        counted = len(pattern.nodes) > 1
        count -= counted
        if count >= 0 or not counted:
            patterns.append(pattern)
        else:
            patterns += [make_pattern((node,), users, wanted, plan.free) for node in pattern.nodes]
    return replace(plan, patterns=patterns)
