"""Time of a kernel by execution (F6): measured before, kept on disk by structure and device; the model for the rest.

FusionStitching section 4.3 scores a pattern f = sum K(op) + (N-1) phi - K(P). The planner's gain is that sum: times of
single ops and of patterns both include a launch. So a pattern counts as measured only where its ops are, too: a
measurement against a prediction would compare two scales.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.text_format import structural_key
from tf_stitch.planning.cost_model import TimeOf
from tf_stitch.planning.device_records import DeviceRecords
from tf_stitch.planning.pattern import Pattern, make_pattern
from tf_stitch.planning.stitch_plan import StitchPlan

VERSION = 1
"""Of the keys: measurements of kernels that are generated differently now are of no use."""
MARGIN, LEAST_US = 0.02, 0.2
"""Part of its time, and microseconds, that another form of a kernel has to save: less is noise."""
COMPLEX_NODES = 4
"""Nodes from which a pattern with a reduction is worth measuring; the model is right enough for the others."""


@dataclass(frozen=True)
class MeasuredCost:
    """Measured microseconds of a pattern where it and each of its ops alone were measured, else the model's.

    Attributes:
        call_us: of a call, which the times lack: CPU kernels are timed in a loop, where a call costs next to nothing.
    """

    model: TimeOf
    times: MeasuredTimes
    aligned: bool = True
    call_us: float = 0.0

    def __call__(self, pattern: Pattern) -> float | None:
        known = self._known(pattern)
        alone = (Pattern((node,), (node,), pattern.free) for node in pattern.nodes)
        if known is None or (len(pattern.nodes) > 1 and any(self._known(op) is None for op in alone)):
            return self.model(pattern)
        return known + self.call_us

    def _known(self, pattern: Pattern) -> float | None:
        return self.times.get(measurement_key(pattern, self.aligned))


def measurement_key(pattern: Pattern, aligned: bool) -> str:
    """Names a pattern's structure and shapes, whatever its nodes are called."""
    text = f"{VERSION} {aligned}\n{structural_key(pattern.nodes, pattern.outputs)}"
    return sha256(text.encode()).hexdigest()[:32]


class MeasuredTimes(DeviceRecords[float]):
    """Microseconds by `measurement_key`."""

    what = "measured times"

    def decode(self, value: Any) -> float:
        return as_time(value)

    def encode(self, record: float) -> Any:
        return record


def saves(before: float, after: float) -> bool:
    """Whether it is for sure that something took less time, in microseconds."""
    return before - after > max(MARGIN * before, LEAST_US)


def as_time(value: Any) -> float:
    """A number that can be microseconds.

    Raises:
        ValueError: it cannot.
    """
    if not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{value!r} is no time")
    return value


def patterns_to_measure(plan: StitchPlan, users: dict[Node, list[Node]], wanted: frozenset[Node]
                        ) -> list[tuple[Pattern, list[Pattern]]]:
    """Complex patterns of a plan, the largest first, each with its parts: its ops alone, and the two halves on either
    side of each of its reductions' results."""
    found = []
    for pattern in sorted(plan.patterns, key=lambda p: len(p.nodes), reverse=True):
        reductions = [n for n in pattern.nodes if n.category is Category.REDUCTION]
        if len(pattern.nodes) < COMPLEX_NODES or not reductions:
            continue

        def part(nodes: Sequence[Node]) -> Pattern:
            return make_pattern(nodes, users, wanted, plan.free)

        position = {n: i for i, n in enumerate(pattern.nodes)}
        cuts = sorted({position[n] + 1 for n in reductions} - {len(pattern.nodes)})
        halves = [part(side) for cut in cuts for side in (pattern.nodes[:cut], pattern.nodes[cut:])]
        found.append((pattern, [part((n,)) for n in pattern.nodes] + [h for h in halves if len(h.nodes) > 1]))
    return found
