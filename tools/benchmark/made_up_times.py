"""Times of patterns for measurements of the planner alone."""

from __future__ import annotations

from tf_stitch.device.spec import H200
from tf_stitch.planning.pattern import Pattern


class MadeUpTimes:
    """A launch and the bytes moved; no schedule is made. Up to 40 nodes fit a kernel, two reductions of one shape."""

    least_us = 2.5
    profile = H200.profile

    def exact(self, pattern: Pattern) -> float | None:
        reduced = {n.type.shape for n in pattern.nodes if n.category.value == "reduction"}
        if len(pattern.nodes) > 40 or len(reduced) > 1:
            return None
        return self.least_us + sum(n.type.nbytes for n in (*pattern.reads(), *pattern.outputs)) / 4e6

    estimate = exact
