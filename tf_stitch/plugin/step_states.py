"""What is known of a function whose calls may be measured: a type for each state.

    Waiting -> Settling -> Between <-> InTurn
                        \\-> Left   <-/

A function waits for its kernels, settles while its regions are timed, and then is measured in turns, or left alone for
a reason.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from tf_stitch.report.step_times import StepTimes

LEAST_ROW, MOST_ROW, ROW_US = 2, 16, 10_000.0
"""Calls of each kind in a turn, and microseconds that those of TensorFlow's graph are to take, if they are short. The
fastest counts: the first ones find caches that are the other kind's."""
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
        recalled: turns that earlier processes measured.
        spent: seconds in calls that nobody wanted.
        plain_calls: of TensorFlow's graph.
        row: calls of each kind in a turn.
    """

    function_key: str
    key: str
    beside: bool
    writes: bool
    since: float
    times: StepTimes = field(default_factory=StepTimes)
    recalled: int = 0
    spent: float = 0.0
    plain_calls: int = 0
    row: int = LEAST_ROW


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
        thread: whose calls are measured.
        before_us, now_us, around_us: what calls took, and what was around them.
    """

    measured: Measured
    last: int
    thread: int = field(default_factory=threading.get_ident)
    before_us: list[float] = field(default_factory=list)
    now_us: list[float] = field(default_factory=list)
    around_us: list[float] = field(default_factory=list)

    @property
    def wants_plain(self) -> bool:
        """Whether the next call is one of TensorFlow's graph."""
        return len(self.before_us) < self.measured.row

    @property
    def is_over(self) -> bool:
        return not self.wants_plain and len(self.now_us) >= self.measured.row

    def add_plain(self, us: float) -> None:
        """A call of TensorFlow's graph. The first of a function instantiates the graph and does not count; the second
        says how many calls there are in a row."""
        measured = self.measured
        measured.plain_calls += 1
        if measured.plain_calls > 1:
            self.before_us.append(us)
        if measured.plain_calls == 2:
            measured.row = max(LEAST_ROW, min(MOST_ROW, int(ROW_US / us)))

    def result(self) -> tuple[float, float]:
        """Microseconds of a call before and now, of a turn that is over."""
        around = min(self.around_us)
        return min(self.before_us) + around, min(self.now_us) + around


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
    """

    name: str
    due: int
    calls: int = 0
    state: State = Waiting()

    @property
    def measured(self) -> Measured | None:
        return self.state.measured if isinstance(self.state, Between | InTurn | Left) else None

    def later(self) -> int:
        """The call that may be the next turn."""
        return max(self.calls + 8, self.calls * 5 // 4)
