"""A plan cut short, to find the pattern that makes a result differ (TF_STITCH_FUEL)."""

from __future__ import annotations

from dataclasses import replace

from tf_stitch.planning.stitch_plan import Pattern, StitchPlan


def fused(pattern: Pattern) -> bool:
    """Whether fuel counts a pattern: a kernel or a library call of more than one node."""
    return len(pattern.nodes) > 1


def keep_patterns(plan: StitchPlan, count: int) -> StitchPlan:
    """The plan with its first `count` fused patterns; the nodes of the others get a kernel or a library call each."""
    patterns: list[Pattern] = []
    for pattern in plan.patterns:
        count -= fused(pattern)
        if count >= 0 or not fused(pattern):
            patterns.append(pattern)
        else:
            patterns += plan.singles(pattern)
    return replace(plan, patterns=patterns)
