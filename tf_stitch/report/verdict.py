"""What was gained, in one line: a step's time by our kernels and by TensorFlow's ops; or why nothing was stitched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tf_stitch.graph.own_ops import OWN_OPS
from tf_stitch.report.entries import GraphEntry, ProfitabilityEntry, RegionEntry

_REASONS = 2
"""That are told where nothing was stitched, the most frequent."""


@dataclass(frozen=True)
class StepTime:
    """The regions of one graph, which mostly is a step.

    Attributes:
        runs: of the region that ran most often.
        timed: how many regions the profitability check has timed.
        now_us: sum of their times, each by what runs now. Regions may run side by side: a step may take less.
        plain_us: the same by TensorFlow's ops.
    """

    runs: int
    regions: int
    timed: int
    now_us: float
    plain_us: float

    @property
    def weight(self) -> float:
        """Of the program's time, what TensorFlow's ops would have spent on it."""
        return self.runs * self.plain_us

    def __str__(self) -> str:
        part = "" if self.timed == self.regions else f" ({self.timed} of its {self.regions} timed)"
        return (f"regions of a step {milliseconds(self.now_us)}, TensorFlow's ops {milliseconds(self.plain_us)}: "
                f"{self.plain_us / self.now_us:.2f}x{part}")


def step_time(graph: GraphEntry, regions: Iterable[RegionEntry], timed: Iterable[ProfitabilityEntry]
              ) -> StepTime | None:
    """Of a graph; None if none of its regions was timed. Of a region's shapes the latest counts."""
    numbers = set(graph.regions)
    latest = {entry.region: entry for entry in timed if entry.region in numbers}
    now = sum(e.fallback_us if e.chosen == "fallback" else e.stitched_us for e in latest.values())
    plain = sum(e.fallback_us for e in latest.values())
    if not now or not plain:
        return None
    runs = max((r.runs + r.preferred_fallback_runs for r in regions if r.id in numbers), default=0)
    return StepTime(max(runs, 1), len(numbers), len(latest), now, plain)


def why_nothing(graphs: Sequence[GraphEntry]) -> str:
    """Why no region was made of any of these graphs."""
    if not graphs:
        return "no tf.function ran, or XLA compiled all of them"
    reasons = sum((Counter(graph.left_out) for graph in graphs), Counter[str]())
    if not reasons:
        return f"{len(graphs)} graphs had no ops worth it"
    shown = [f"{reason} ({count} ops)" for reason, count in reasons.most_common(_REASONS)]
    return "; ".join(shown) + ("; and others" if len(reasons) > _REASONS else "")


def is_second_pass(ops: Iterable[str]) -> bool:
    """Whether a graph of these ops holds our own: TensorFlow optimizes most graphs twice."""
    return not OWN_OPS.isdisjoint(ops)


def milliseconds(us: float) -> str:
    """A time, with three digits."""
    return f"{us / 1e3:.3g} ms" if us >= 100 else f"{us:.3g} us"
