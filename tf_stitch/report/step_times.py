"""What calls of a function took by TensorFlow's graph and take by ours, measured in turns."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

LEAST_TURNS, MOST_TURNS = 4, 12
"""Turns that a statement about a step rests on."""


@dataclass(frozen=True)
class StepTimes:
    """Both times of each turn, in microseconds.

    Raises:
        ValueError: there are more times of one kind, or one is not positive.
    """

    before_us: tuple[float, ...] = ()
    now_us: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.before_us) != len(self.now_us):
            raise ValueError(f"{len(self.before_us)} and {len(self.now_us)} times")
        if not all(time > 0 for time in (*self.before_us, *self.now_us)):
            raise ValueError("a time is not positive")

    def with_turn(self, before_us: float, now_us: float) -> StepTimes:
        """These times and those of one more turn, the newest MOST_TURNS."""
        return StepTimes((*self.before_us, before_us)[-MOST_TURNS:], (*self.now_us, now_us)[-MOST_TURNS:])

    @property
    def turns(self) -> int:
        return len(self.before_us)

    @property
    def enough(self) -> bool:
        """Whether these are enough turns to say something."""
        return self.turns >= LEAST_TURNS

    @property
    def before(self) -> float:
        """Microseconds of a call in the middle turns."""
        return statistics.fmean(before for before, _ in self._middle)

    @property
    def now(self) -> float:
        """Microseconds of a call in the middle turns."""
        return statistics.fmean(now for _, now in self._middle)

    @property
    def _middle(self) -> list[tuple[float, float]]:
        """The turns without the quarter that gained most and the quarter that gained least. Both times of a turn are of
        the same moment: what slows the machine down slows both, and what hits one of them makes the ratio an extreme.

        Raises:
            ValueError: there are no turns.
        """
        if not self.turns:
            raise ValueError("no times")
        by_gain = sorted(zip(self.before_us, self.now_us, strict=True), key=lambda turn: turn[0] / turn[1])
        outside = self.turns // 4
        return by_gain[outside:self.turns - outside]
