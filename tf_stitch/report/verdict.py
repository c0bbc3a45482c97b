"""What was gained, in one line: a step's time by TensorFlow's graph and by ours; or why it is not known."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tf_stitch.frontend.tensorflow.own_ops import OWN_OPS
from tf_stitch.messages import counted
from tf_stitch.report.entries import GraphEntry, ProfitabilityEntry, RegionEntry, StepEntry
from tf_stitch.report.step_times import StepTimes

LEAST_PAIRS = 3
"""Of timed calls that a region's times rest on, where they are told or kept for good."""
_NO_DIFFERENCE = 0.03
"""Of a step's time, what is too little to be told from noise."""
_TRACED = re.compile("__(?:inference|forward)_(.+)_[0-9]+")
_REASONS = 2
"""That are told where nothing was stitched, the most frequent."""


@dataclass(frozen=True)
class RegionsTime:
    """The regions of one graph, which mostly is a step.

    Attributes:
        runs: of the region that ran most often.
        timed: how many regions the profitability check has timed often enough.
        now_us: sum of their times, each by what runs now. Regions may run side by side: a step may take less.
        plain_us: the same by TensorFlow's ops.
        step: what runs the graph.
    """

    runs: int
    regions: int
    timed: int
    now_us: float
    plain_us: float
    step: str = "step"

    @property
    def weight(self) -> float:
        """Of the program's time, what TensorFlow's ops would have spent on it."""
        return self.runs * self.plain_us

    def __str__(self) -> str:
        part = "" if self.timed == self.regions else f" ({self.timed} of its {self.regions} timed often enough)"
        return (f"regions of a {self.step} {milliseconds(self.now_us)}, by TensorFlow's ops "
                f"{milliseconds(self.plain_us)} each alone{part}")


def regions_time(graph: GraphEntry, regions: Iterable[RegionEntry], timed: Iterable[ProfitabilityEntry]
                 ) -> RegionsTime | None:
    """Of a graph; None if none of its regions was timed often enough. Of a region's shapes the latest counts."""
    numbers = set(graph.regions)
    latest = {entry.region: entry for entry in timed if entry.region in numbers and entry.pairs >= LEAST_PAIRS}
    now = sum(e.fallback_us if e.chosen == "fallback" else e.stitched_us for e in latest.values())
    plain = sum(e.fallback_us for e in latest.values())
    if not now or not plain:
        return None
    runs = max((r.runs + r.preferred_fallback_runs for r in regions if r.id in numbers), default=0)
    step = "call of Session.run" if graph.is_of_session else "step"
    return RegionsTime(max(runs, 1), len(numbers), len(latest), now, plain, step)


@dataclass(frozen=True)
class Step:
    """What calls of one function took by TensorFlow's graph and take by ours.

    Attributes:
        function: as the program names it.
        calls: by the program.
        turns: that the times rest on.
        before_us, now_us: of a call, by the middle half of the turns (report/step_times.py).
    """

    function: str
    calls: int
    turns: int
    before_us: float
    now_us: float

    @property
    def speedup(self) -> float:
        """How many calls now take the time of one before; below 1 where a call got slower."""
        return self.before_us / self.now_us

    def __str__(self) -> str:
        said = f"{self.speedup:.2f}x" if self.now_us < self.before_us else (
            f"{100 * (self.now_us / self.before_us - 1):.0f}% slower")
        said = "no difference" if abs(self.speedup - 1) < _NO_DIFFERENCE else said
        return (f"a call of {self.function} took {milliseconds(self.before_us)} and takes {milliseconds(self.now_us)} "
                f"now: {said} (middle half of {self.turns} turns)")


def main_step(entries: Iterable[StepEntry]) -> Step | None:
    """The function of which a program's calls took most, of those that were measured often enough."""
    steps = []
    for entry in entries:
        times = StepTimes(entry.before_us, entry.now_us)
        if not entry.why_not and times.enough:
            steps.append(Step(user_name(entry.function), entry.calls, times.turns, times.before, times.now))
    return max(steps, key=lambda step: step.calls * step.now_us, default=None)


def said_of_steps(entries: Sequence[StepEntry], sessions: bool = False) -> str:
    """What calls took and take; or why nobody knows.

    Args:
        sessions: the program ran stitched graphs by Session.run, which cannot run one graph now and another one later.
    """
    step = main_step(entries)
    calls = 0 if step is None else step.calls
    others = [entry for entry in entries if entry.why_not and entry.calls > calls]
    other = max(others, key=lambda entry: entry.calls, default=None)
    why = "" if other is None else f"{user_name(other.function)}: {other.why_not}"
    if step is not None:
        return f"{step}" + (f" (not measured: {why})" if why else "")
    no_function = "of Session.run regions alone are timed" if sessions else "the program called no stitched tf.function"
    return f"no step was measured: {why or no_function}"


def user_name(function: str) -> str:
    """A function as the program names it, of TensorFlow's name for it."""
    found = _TRACED.fullmatch(function)
    return function if found is None else found[1]


def why_nothing(graphs: Sequence[GraphEntry]) -> str:
    """Why no region was made of any of these graphs."""
    if not graphs:
        return "no tf.function ran, or XLA compiled all of them"
    reasons = sum((Counter(graph.left_out) for graph in graphs), Counter[str]())
    if not reasons:
        return f"{counted(len(graphs), 'graph')} had no ops worth it"
    shown = [f"{reason} ({counted(count, 'op')})" for reason, count in reasons.most_common(_REASONS)]
    return "; ".join(shown) + ("; and others" if len(reasons) > _REASONS else "")


def why_no_kernel(runs: int, fallbacks: Iterable[tuple[str, str, str]], remarks: Iterable[tuple[str, str, str]]) -> str:
    """Why there are regions and no kernels.

    Args:
        runs: of all regions, by whatever.
        fallbacks, remarks: stage, where, reason.
    """
    failed = [reason for stage, _, reason in (*fallbacks, *remarks) if stage == "build"]
    return failed[0] if failed else "they were still being built" if runs else "none of the regions was run"


def is_second_pass(ops: Iterable[str]) -> bool:
    """Whether a graph of these ops holds our own: TensorFlow optimizes most graphs twice."""
    return not OWN_OPS.isdisjoint(ops)


def milliseconds(us: float) -> str:
    """A time, with three digits."""
    return f"{us / 1e3:.3g} ms" if us >= 100 else f"{us:.3g} us"
