"""One program of the table: what runs with and without tf_stitch took, and what the line at exit said."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

NAMES = ("mlp_training", "softmax", "few_ops", "large_matmuls", "layer_norms", "encoder", "recurrent_training",
          "convolution_training", "embedding_training", "simulation")
"""Of the programs in programs.py, which imports TensorFlow."""
_SAID = re.compile(r"took (\S+) (ms|us) and takes (\S+) (ms|us) now")
ALLOWED = 0.15
"""By how much the line's ratio may be off."""


@dataclass(frozen=True)
class Row:
    """
    Attributes:
        before_ms, now_ms: a step in each round, in runs without and with tf_stitch.
        said: lines at exit, in order.
    """

    program: str
    before_ms: tuple[float, ...]
    now_ms: tuple[float, ...]
    said: tuple[str, ...]

    @property
    def runs(self) -> float:
        """The ratio that runs show: median over the rounds."""
        return statistics.median(self.ratios)

    @property
    def fastest(self) -> float:
        """The ratio of the fastest rounds: where other programs disturb all rounds, the least disturbed ones."""
        return min(self.before_ms) / min(self.now_ms)

    @property
    def ratios(self) -> list[float]:
        """Of each round."""
        return [b / n for b, n in zip(self.before_ms, self.now_ms, strict=True)]

    @property
    def is_told(self) -> bool:
        """Whether rounds agree as well as a line has to: else they cannot say whether it is right."""
        return max(self.ratios) <= min(self.ratios) * (1 + ALLOWED) ** 2

    @property
    def verdict(self) -> float | None:
        """The ratio that the line of the last run says; None if it names no times."""
        return ratio_said(self.said[-1])

    def off(self, truth: float) -> float | None:
        """By how much the line is off a ratio: 0.1 where it says 10 % too much; None if it names no times."""
        return None if self.verdict is None else self.verdict / truth - 1


def ratio_said(line: str) -> float | None:
    """The ratio of the two times that a line at exit names; None if there are none."""
    found = _SAID.search(line)
    if found is None:
        return None
    before, now = (float(value) * (1e3 if unit == "ms" else 1.0) for value, unit in (found.group(1, 2),
                                                                                      found.group(3, 4)))
    return before / now


def step_ms(stdout: str) -> float:
    """What a program printed.

    Raises:
        ValueError: it printed no time of a step.
    """
    found = re.search(r"^step (\S+) ms$", stdout, re.MULTILINE)
    if found is None:
        raise ValueError(f"no time of a step: {stdout[-500:]!r}")
    return float(found[1])


def table(rows: Sequence[Row]) -> str:
    """As Markdown."""
    lines = ["| program | without, ms | with, ms | rounds | their ratios | median | fastest | the line says | "
             "off median | off fastest |", f"|{' --- |' * 10}"]
    for row in rows:
        ratios = row.ratios
        noise = "" if row.is_told else " (noise)"
        said = "no number" if row.verdict is None else f"{row.verdict:.2f}x"
        lines.append(f"| {row.program} | {min(row.before_ms):.3f} | {min(row.now_ms):.3f} | {len(ratios)} | "
                     f"{min(ratios):.2f} to {max(ratios):.2f}{noise} | {row.runs:.2f}x | {row.fastest:.2f}x | "
                     f"{said} | {_percent(row.off(row.runs))} | {_percent(row.off(row.fastest))} |")
    return "\n".join(lines)


def within(rows: Sequence[Row], truth: Callable[[Row], float]) -> int:
    """How many lines are right."""
    return sum(is_right(row, truth) for row in rows)


def is_right(row: Row, truth: Callable[[Row], float]) -> bool:
    off = row.off(truth(row))
    return off is not None and abs(off) <= ALLOWED


def _percent(off: float | None) -> str:
    return "" if off is None else f"{100 * off:+.0f} %" + (" (!)" if abs(off) > ALLOWED else "")
