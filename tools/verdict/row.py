"""One program of the table: what runs with and without tf_stitch took, and what the line at exit said."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

NAMES = ("mlp_training", "softmax", "few_ops", "large_matmuls", "layer_norms", "encoder", "recurrent_training",
          "convolution_training", "embedding_training", "simulation")
"""Of the programs in programs.py, which imports TensorFlow."""
_SAID = re.compile(r"took (\S+) (ms|us) and takes (\S+) (ms|us) now")
ALLOWED = 0.15
"""By how much the line's ratio may be off."""
_OUTSIDE = 0.1
"""Of the turns, the share on each side that is no part of the spread."""


@dataclass(frozen=True)
class Round:
    """Two runs of a program, without and with tf_stitch, which took turns.

    Attributes:
        before_ms, now_ms: a step in each turn.
        said: the line at exit.
    """

    before_ms: tuple[float, ...]
    now_ms: tuple[float, ...]
    said: str

    @property
    def late(self) -> Round:
        """The second half of the runs. The line is about what runs at the end: in the first half a region may have
        given way to TensorFlow's ops."""
        half = len(self.now_ms) // 2
        return Round(self.before_ms[half:], self.now_ms[half:], self.said)

    @property
    def ratios(self) -> list[float]:
        """Of each turn, in order of size."""
        return sorted(b / n for b, n in zip(self.before_ms, self.now_ms, strict=True))

    @property
    def shown(self) -> float:
        """The ratio that the runs show: median over the turns."""
        return statistics.median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """The ratios without a tenth of the turns at each end."""
        outside = int(len(self.ratios) * _OUTSIDE)
        return self.ratios[outside], self.ratios[len(self.ratios) - 1 - outside]

    @property
    def line(self) -> float | None:
        """The ratio that the line says; None if it names no times."""
        return ratio_said(self.said)

    @property
    def off(self) -> float | None:
        """By how much the line is off: 0.1 where it says 10 % too much; None if it names no times."""
        return None if self.line is None else self.line / self.shown - 1

    @property
    def is_near(self) -> bool:
        """Whether the line is as near to what the runs show as it has to be."""
        return self.off is not None and abs(self.off) <= ALLOWED

    @property
    def is_in_spread(self) -> bool:
        """Whether some turns show as much and others as little as the line says."""
        return self.line is not None and self.spread[0] <= self.line <= self.spread[1]


@dataclass(frozen=True)
class Row:
    """The rounds of a program, of which the second half counts."""

    program: str
    rounds: tuple[Round, ...]

    @property
    def near(self) -> int:
        """How many lines are near."""
        return sum(one.late.is_near for one in self.rounds)

    @property
    def right(self) -> int:
        """How many lines are near, or within the spread of the turns."""
        return sum(one.late.is_near or one.late.is_in_spread for one in self.rounds)


def row_of(line: dict[str, object]) -> Row:
    """A row that was written as JSON."""
    rounds = line["rounds"]
    assert isinstance(rounds, list)
    return Row(str(line["program"]), tuple(Round(tuple(one["before_ms"]), tuple(one["now_ms"]), one["said"])
                                           for one in rounds))


def ratio_said(line: str) -> float | None:
    """The ratio of the two times that a line at exit names; None if there are none."""
    found = _SAID.search(line)
    if found is None:
        return None
    before, now = (float(value) * (1e3 if unit == "ms" else 1.0) for value, unit in (found.group(1, 2),
                                                                                      found.group(3, 4)))
    return before / now


def step_ms(printed: str) -> float:
    """What a program printed.

    Raises:
        ValueError: it printed no time of a step.
    """
    found = re.search(r"^step (\S+) ms$", printed, re.MULTILINE)
    if found is None:
        raise ValueError(f"no time of a step: {printed[-500:]!r}")
    return float(found[1])


def table(rows: Sequence[Row]) -> str:
    """As Markdown, a line for each round."""
    lines = ["| program | without, ms | with, ms | turns | their ratios | median | the line says | off | right |",
             f"|{' --- |' * 9}"]
    for row in rows:
        for one in (whole.late for whole in row.rounds):
            low, high = one.spread
            said = "no number" if one.line is None else f"{one.line:.2f}x"
            off = "" if one.off is None else f"{100 * one.off:+.0f} %"
            right = "yes" if one.is_near else "in the spread" if one.is_in_spread else "no"
            lines.append(f"| {row.program} | {statistics.median(one.before_ms):.3f} | "
                         f"{statistics.median(one.now_ms):.3f} | {len(one.ratios)} | {low:.2f} to {high:.2f} | "
                         f"{one.shown:.2f}x | {said} | {off} | {right} |")
    return "\n".join(lines)
