"""What is known of a function whose calls may be measured: a type for each state.

    Waiting -> Settling -> Between <-> InTurn
                        \\-> Left   <-/

A function waits for its kernels, settles while its regions are timed, and then is measured in turns, or left alone for
a reason.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tf_stitch.report.step_times import StepTimes

LEAST_ROW, MOST_ROW, ROW_US = 2, 16, 10_000.0
"""Calls of each kind in a turn: as many as take this many microseconds, within these bounds."""
NEVER = 1 << 62
"""The number of a call."""


@dataclass(eq=False)
class Measured:
    """A function that is measured.

    Attributes:
        function_key, key: in the store, and with the shapes that are measured.
        beside: TensorFlow's graph runs beside the program.
        writes: it gives new values to variables.
        since: when kernels were found to run.
        own: turns that this process measured.
        spent: seconds in calls that nobody wanted.
        instantiated: TensorFlow's graph has been called.
    """

    function_key: str
    key: str
    beside: bool
    writes: bool
    since: float
    times: StepTimes = field(default_factory=StepTimes)
    own: int = 0
    spent: float = 0.0
    instantiated: bool = False


@dataclass(frozen=True)
class Waiting:
    """For kernels."""


@dataclass(frozen=True)
class Settling:
    """Kernels run; their regions are timed in the first calls.

    Attributes:
        since: when kernels were found to run.
        may_replace: the clock decided when its calls changed over: some may go back to TensorFlow's graph.
    """

    since: float
    may_replace: bool


@dataclass(frozen=True)
class Between:
    """No turn goes on."""

    measured: Measured


@dataclass(eq=False)
class InTurn:
    """A turn goes on.

    Attributes:
        last: the number of the last call that belongs to it.
        shapes: of the arguments that are measured.
        thread: whose calls are measured.
        before_us, now_us: what calls of each kind took, with what TensorFlow does in Python around them.
    """

    measured: Measured
    last: int
    shapes: Sequence[Any]
    thread: int = field(default_factory=threading.get_ident)
    before_us: list[float] = field(default_factory=list)
    now_us: list[float] = field(default_factory=list)

    @property
    def wants_plain(self) -> bool:
        """Whether the next call is one of TensorFlow's graph."""
        return not _is_row(self.before_us)

    @property
    def is_over(self) -> bool:
        return _is_row(self.before_us) and _is_row(self.now_us)

    def add(self, us: float, plain: bool) -> None:
        """A call, of TensorFlow's graph if it is `plain`. The first of those instantiates the graph and does not
        count."""
        if not plain:
            self.now_us.append(us)
        elif self.measured.instantiated:
            self.before_us.append(us)
        else:
            self.measured.instantiated = True

    def result(self) -> tuple[float, float]:
        """Microseconds of a call before and now, of a turn that is over."""
        return _typical(self.before_us), _typical(self.now_us)


def _typical(times_us: Sequence[float]) -> float:
    """The lower quartile of a row without its first quarter, which finds caches that are the other kind's, and memory
    that the allocator has to ask for again. Other programs only make calls longer; but the fastest of all would be too
    good for the kind whose calls differ more."""
    rest = sorted(times_us[-(-len(times_us) // 4):])
    return rest[len(rest) // 4]


def _is_row(times_us: Sequence[float]) -> bool:
    """Whether these are enough calls of one kind."""
    return len(times_us) >= MOST_ROW or (len(times_us) >= LEAST_ROW and sum(times_us) >= ROW_US)


@dataclass(frozen=True)
class Left:
    """It is not measured, or not any more.

    Attributes:
        why: "" where all turns were measured.
        measured: None where it never was.
        stitched: regions were made of it.
    """

    why: str
    measured: Measured | None = None
    stitched: bool = True


State = Waiting | Settling | Between | InTurn | Left


@dataclass(eq=False)
class Function:
    """A function that the program calls.

    Attributes:
        due: the number of the call that may be a turn.
        since: the number of the call that was the first of its form.
    """

    name: str
    due: int
    calls: int = 0
    since: int = 0
    state: State = Waiting()

    @property
    def measured(self) -> Measured | None:
        return self.state.measured if isinstance(self.state, Between | InTurn | Left) else None

    def later(self) -> int:
        """The call that may be the next turn."""
        return self.calls + max(8, (self.calls - self.since) // 4)
