"""Measures, now and then, what a call of a function would take by TensorFlow's graph and takes by ours.

A turn is two or more calls of each kind in a row, TensorFlow's first. Where the function can, it runs beside the
program (plugin/unseen_calls.py), so that callers get what the kernels compute. A function that reads a data set cannot:
while the clock still decides when its calls change over (plugin/first_calls.py), TensorFlow's calls are the program's
own, and so are the next ones. All else is as in the program: the same inputs, the same thread, and what TensorFlow does
in Python around the call.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import tensorflow as tf
from tensorflow.python.eager.context import context
from tensorflow.python.framework.config import is_op_determinism_enabled

from tf_stitch.errors import StitchError
from tf_stitch.plugin import graph_hook
from tf_stitch.plugin.first_calls import FirstCalls
from tf_stitch.plugin.function_definition import FunctionDefinition
from tf_stitch.plugin.held_variables import called_name, is_plain_call
from tf_stitch.plugin.unseen_calls import why_seen, with_copies, writes
from tf_stitch.report.entries import StepEntry
from tf_stitch.report.step_times import LEAST_TURNS, StepTimes

FIRST_LOOK = 16
"""The call of a function after which it is asked whether kernels run."""
SETTLING = 24
"""Calls with kernels before the first turn: their regions are timed in these."""
MOST_TURNS = 12
_LEAST_ROW, _MOST_ROW, _ROW_US = 2, 16, 10_000.0
"""Calls of each kind in a turn, and microseconds that those of TensorFlow's graph are to take, if they are short. The
fastest counts: the first ones find caches that are the other kind's."""
_SHARE = 0.02
"""Of a function's time, what turns beyond the first LEAST_TURNS may take."""
_CLOCK = "_tf_stitch_clock"
_AFTER_CHANGE = 8
"""Calls after a region's change of form."""
_MOST_CLOCKS = 1000
"""Functions, beyond which those that were called seldom are not told any more."""

Flat = Callable[[Any, Any, Any], Any]


class Store(Protocol):
    """Keeps times for later processes (jit/step_store.py)."""

    def recall(self, key: str) -> StepTimes: ...

    def keep(self, key: str, times: StepTimes) -> None: ...


@dataclass(eq=False)
class _Clock:
    """Of one function.

    Attributes:
        due: the number of the call that may be a turn.
        settled: kernels were found to run; `since` then.
        looked: it was found out how it can be measured.
        writes: it gives new values to variables.
        may_replace: the clock decided when its calls changed over: some may go back to TensorFlow's graph.
        stitched: regions were made of it, when it was first looked at. Later its graph may be gone.
        beside: TensorFlow's graph runs beside the program.
        warm: calls of TensorFlow's graph.
        row: calls of each kind in a turn.
        before_us, now_us, around_us: what calls of the turn that goes on took, and what was around them; `before_us` is
            empty between turns.
        recalled: turns that earlier processes measured.
        spent: seconds in calls that nobody wanted.
        why_not: why it is not measured.
    """

    name: str
    calls: int = 0
    due: int = FIRST_LOOK
    settled: bool = False
    since: float = 0.0
    may_replace: bool = False
    looked: bool = False
    writes: bool = True
    stitched: bool = False
    beside: bool = True
    warm: int = 0
    row: int = 2
    before_us: list[float] = field(default_factory=list)
    now_us: list[float] = field(default_factory=list)
    around_us: list[float] = field(default_factory=list)
    function_key: str = ""
    key: str = ""
    times: StepTimes = field(default_factory=StepTimes)
    recalled: int = 0
    spent: float = 0.0
    why_not: str = ""


class StepTurns:
    """Thread-safe: one turn at a time.

    Args:
        store: where times are kept.
        key: of a function in the store, by its own key and the shapes of its inputs.
        is_stitched: whether regions were made of a function.
        first_calls: which functions still run TensorFlow's graph; None: none does.
        noted: is told what went wrong with the store.
    """

    def __init__(self, store: Store, key: Callable[[str, Sequence[Any]], str], is_stitched: Callable[[str], bool],
                 first_calls: FirstCalls | None, noted: Callable[[str], None]) -> None:
        self._store, self._key, self._is_stitched = store, key, is_stitched
        self._first_calls, self._noted = first_calls, noted
        self._clocks: list[_Clock] = []
        self._not_before = 0  # the call of a function after which its form does not change any more
        self._lock = threading.Lock()
        self._thread = threading.local()
        self._near = False
        self.on_near: Callable[[bool], None] = lambda near: None
        """Is told whether the next call of some function may be a turn, when that changes."""
        self.measures = False
        """Whether some thread calls TensorFlow's graph."""

    @property
    def plain_here(self) -> bool:
        """Whether this thread calls TensorFlow's graph."""
        return getattr(self._thread, "plain", False)

    def call(self, flat: Flat, function: Any, inputs: Sequence[Any], captured: Sequence[Any], plain: Flat) -> Any:
        """A call of a ConcreteFunction by `flat`; `plain` calls it by TensorFlow's way."""
        clock: _Clock | None = function.__dict__.get(_CLOCK)
        if clock is None:
            clock = self._new(function)
        clock.calls += 1
        if clock.calls < clock.due - 1:
            return flat(function, inputs, captured)
        if clock.calls < clock.due:
            self._set_near(True)
            return flat(function, inputs, captured)
        if not self._lock.acquire(blocking=False):
            return flat(function, inputs, captured)
        begin = time.perf_counter()
        try:
            self._set_near(False)
            if self._may_go_on(clock, function, [*inputs, *captured]):
                return self._part(clock, flat, plain, function, inputs, captured)
            return flat(function, inputs, captured)
        finally:
            self._thread.inside = time.perf_counter() - begin
            self._lock.release()

    def around(self, original: Any) -> Any:
        """tf.function's call, whose own time counts on both sides."""

        @functools.wraps(original)
        def __call__(function: Any, *args: Any, **kwds: Any) -> Any:
            if not self._near:
                return original(function, *args, **kwds)
            self._thread.part, self._thread.around = None, True
            start = time.perf_counter()
            try:
                return original(function, *args, **kwds)
            finally:
                self._thread.around = False
                clock = self._thread.part
                if clock is not None:
                    around = time.perf_counter() - start - self._thread.inside
                    self._end_part(clock, max(0.0, around) * 1e6)

        return __call__

    def _set_near(self, near: bool) -> None:
        if near != self._near:
            self._near = near
            self.on_near(near)

    def entries(self) -> list[StepEntry]:
        """What was measured of each function of which regions were made."""
        return [StepEntry(c.name, c.calls, c.times.before_us, c.times.now_us, c.recalled, self._why_not(c))
                for c in list(self._clocks) if c.stitched or (not c.looked and self._is_stitched(c.name))]

    def region_gives_way(self, from_call: int, known: bool) -> None:
        """A region runs TensorFlow's ops from a call on. What was measured of its kernels does not hold then, unless
        that was `known` before."""
        self._not_before = max(self._not_before, from_call + _AFTER_CHANGE if from_call else 0)
        for clock in list(self._clocks):
            if clock.times.turns and not known:
                clock.times, clock.recalled = StepTimes(), 0
                self._keep(clock)

    def end(self) -> None:
        """Keeps what was measured."""
        for clock in list(self._clocks):
            if clock.times.turns > clock.recalled:
                self._keep(clock)

    def _why_not(self, clock: _Clock) -> str:
        if clock.times.enough:
            return ""
        if clock.why_not or clock.looked:
            return clock.why_not or f"{clock.times.turns} of {LEAST_TURNS} turns were measured, too few"
        called = FIRST_LOOK + SETTLING
        times = "once" if clock.calls == 1 else f"{clock.calls} times"
        return f"called {times}, too seldom" if clock.settled or clock.calls < called else \
            "its kernels came too late"

    def _new(self, function: Any) -> _Clock:
        clock = _Clock(function._inference_function.name.decode())
        setattr(function, _CLOCK, clock)
        if len(self._clocks) > _MOST_CLOCKS:
            self._clocks[:] = [clock for clock in self._clocks if clock.looked]
        self._clocks.append(clock)
        return clock

    def _may_go_on(self, clock: _Clock, function: Any, inputs: Sequence[Any]) -> bool:
        """Whether a call may be a turn, or a part of one. Says when the next one is due."""
        ctx, before = context(), clock.before_us
        clock.due, clock.before_us = _later(clock), []
        if not is_plain_call(ctx) or ctx.is_async() or ctx.function_call_options.executor_type:
            return False
        if not clock.settled:
            name = called_name(function)
            clock.settled = self._first_calls is None or self._first_calls.is_over(name)
            clock.may_replace = self._first_calls is not None and self._first_calls.changes_any_time(name.decode())
            clock.since = time.monotonic()
            clock.due = clock.calls + SETTLING
            return False
        if clock.calls < self._not_before:
            clock.due = max(clock.due, self._not_before)
            return False
        if not clock.looked:
            self._begin(clock, inputs)
        if clock.why_not or clock.times.turns >= MOST_TURNS:
            clock.due = 1 << 62
            return False
        if self._key(clock.function_key, inputs) != clock.key:  # sizes that come now and then
            return False
        clock.before_us = before
        return bool(before) or not clock.times.enough or clock.spent < _SHARE * (time.monotonic() - clock.since)

    def _begin(self, clock: _Clock, inputs: Sequence[Any]) -> None:
        """Finds out how a function can be measured, and what is known of it."""
        try:
            clock.looked = True
            definition = FunctionDefinition(context(), clock.name.encode())
        except tf.errors.NotFoundError:
            clock.why_not = "TensorFlow has removed a function that it calls"
            return
        clock.stitched = self._is_stitched(clock.name)
        if not clock.stitched:
            clock.why_not = "nothing of it was stitched"
        elif is_op_determinism_enabled():
            clock.why_not = "its results have to repeat (op determinism)"
        elif context().num_gpus():
            clock.why_not = "on GPUs regions alone are timed"
        else:
            seen = why_seen(definition, inputs)
            clock.beside, clock.writes = not seen, writes(definition.functions)
            clock.why_not = "" if clock.may_replace else seen
        clock.function_key = definition.key()
        clock.key = self._key(clock.function_key, inputs)
        try:
            clock.times = self._store.recall(clock.key)
        except (OSError, StitchError) as error:
            self._noted(f"{error}; the step is measured again")
        clock.recalled = clock.times.turns

    def _part(self, clock: _Clock, flat: Flat, plain: Flat, function: Any, inputs: Sequence[Any],
              captured: Sequence[Any]) -> Any:
        """One call of the program in a turn."""
        if clock.beside and not clock.before_us:
            self._run_unseen(clock, plain, function, inputs, captured)
            clock.now_us, clock.around_us = [], []
        if clock.beside and not clock.before_us:  # it failed
            return flat(function, inputs, captured)
        if len(clock.before_us) < clock.row:
            with self._plain():
                result = self._timed(clock.before_us, plain, function, inputs, captured)
            clock.now_us, clock.around_us = [], []
            self._warm(clock)
        else:
            result = self._timed(clock.now_us, flat, function, inputs, captured)
        clock.due = clock.calls + 1
        self._set_near(True)
        if getattr(self._thread, "around", False):
            self._thread.part = clock
        else:  # it is no tf.function's call
            self._end_part(clock, 0.0)
        return result

    def _end_part(self, clock: _Clock, around_us: float) -> None:
        """A call of a turn is over; perhaps the turn is, too."""
        clock.around_us.append(around_us)
        if len(clock.before_us) < clock.row or len(clock.now_us) < clock.row:
            return
        around = min(clock.around_us)
        before, now = min(clock.before_us) + around, min(clock.now_us) + around
        clock.before_us = []
        clock.due = _later(clock)
        self._set_near(False)
        self._add(clock, before, now)

    def _warm(self, clock: _Clock) -> None:
        """After TensorFlow's first call, which instantiates its graph and does not count; its second says how many
        calls there are in a row."""
        clock.warm += 1
        if clock.warm == 1:
            clock.before_us = []
        elif clock.warm == 2:
            clock.row = max(_LEAST_ROW, min(_MOST_ROW, int(_ROW_US / clock.before_us[0])))

    def _run_unseen(self, clock: _Clock, plain: Flat, function: Any, inputs: Sequence[Any], captured: Sequence[Any]
                    ) -> None:
        """Calls of TensorFlow's graph beside the program. Before the first one it is instantiated."""
        begin = time.perf_counter()
        try:
            given = [*inputs, *captured]
            given = with_copies(given) if clock.writes else given
            with self._plain():
                while len(clock.before_us) < clock.row:
                    self._timed(clock.before_us, plain, function, given[:len(inputs)], given[len(inputs):])
                    self._warm(clock)
        except Exception as error:  # the program's own call says what is wrong, if it is not for want of memory
            clock.why_not, clock.due, clock.before_us = f"a call beside it failed: {type(error).__name__}", 1 << 62, []
        clock.spent += time.perf_counter() - begin

    def _timed(self, times: list[float], call: Flat, *arguments: Any) -> Any:
        start = time.perf_counter()
        result = call(*arguments)
        times.append(max(1e-3, (time.perf_counter() - start) * 1e6))
        return result

    def _add(self, clock: _Clock, before: float, now: float) -> None:
        clock.times = clock.times.with_turn(before, now)
        if clock.times.turns in (LEAST_TURNS, MOST_TURNS):
            self._keep(clock)

    def _keep(self, clock: _Clock) -> None:
        try:
            self._store.keep(clock.key, clock.times)
        except OSError as error:
            self._noted(f"times of a step cannot be kept: {error}")

    @contextlib.contextmanager
    def _plain(self) -> Any:
        self._thread.plain = self.measures = True
        try:
            with graph_hook.suspended():
                yield
        finally:
            self._thread.plain = self.measures = False


def _later(clock: _Clock) -> int:
    """The call that may be the next turn."""
    return max(clock.calls + 8, clock.calls * 5 // 4)
