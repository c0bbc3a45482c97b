"""What calls of a function took by TensorFlow's graph and take by ours, measured in turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEAST_TURNS = 4
"""Turns that a statement about a step rests on, at least."""


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
        """These times and those of one more turn."""
        return StepTimes((*self.before_us, before_us), (*self.now_us, now_us))

    @property
    def turns(self) -> int:
        return len(self.before_us)

    @property
    def enough(self) -> bool:
        """Whether these are enough turns to say something."""
        return self.turns >= LEAST_TURNS

    @property
    def before(self) -> float:
        return fastest_quarter(self.before_us)

    @property
    def now(self) -> float:
        return fastest_quarter(self.now_us)


def fastest_quarter(times: Sequence[float]) -> float:
    """Mean of the fastest quarter of times, of one at least. What disturbs a measurement only makes it longer.

    Raises:
        ValueError: there are none.
    """
    if not times:
        raise ValueError("no times")
    fastest = sorted(times)[:max(1, len(times) // 4)]
    return sum(fastest) / len(fastest)
