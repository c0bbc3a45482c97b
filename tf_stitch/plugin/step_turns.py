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
from typing import Any, Protocol

import tensorflow as tf
from tensorflow.python.eager.context import context
from tensorflow.python.framework.config import is_op_determinism_enabled

from tf_stitch.errors import StitchError
from tf_stitch.plugin import graph_hook
from tf_stitch.plugin.first_calls import FirstCalls
from tf_stitch.plugin.function_definition import FunctionDefinition
from tf_stitch.plugin.held_variables import called_name, is_plain_call
from tf_stitch.plugin.step_states import NEVER, Between, Function, InTurn, Left, Measured, Settling, State, Waiting
from tf_stitch.plugin.unseen_calls import why_seen, with_copies, writes
from tf_stitch.report.entries import StepEntry
from tf_stitch.report.step_times import LEAST_TURNS, StepTimes

FIRST_LOOK = 16
"""The call of a function after which it is asked whether kernels run."""
SETTLING = 24
"""Calls with kernels before the first turn: their regions are timed in these."""
MOST_TURNS = 12
_SHARE = 0.02
"""Of a function's time, what turns beyond the first LEAST_TURNS may take."""
_CALLED = "_tf_stitch_calls"
_AFTER_CHANGE = 8
"""Calls after a region's change of form."""
_STALE = 64
"""Calls by other threads after which a turn is given up."""
_MOST_FUNCTIONS = 1000
"""Functions, beyond which those that were called seldom are not told any more."""

Flat = Callable[[Any, Any, Any], Any]


class Store(Protocol):
    """Keeps times for later processes (jit/step_store.py)."""

    def recall(self, key: str) -> StepTimes: ...

    def keep(self, key: str, times: StepTimes) -> None: ...


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
        self._functions: list[Function] = []
        self._not_before = 0  # the call of a function after which its form does not change any more
        self._calling = threading.Lock()  # held in a call that may be one of a turn
        self._changing = threading.Lock()  # held where states and times change, never in a call
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
        called: Function | None = function.__dict__.get(_CALLED)
        if called is None:
            called = self._new(function)
        called.calls += 1
        if called.calls < called.due - 1:
            return flat(function, inputs, captured)
        if called.calls < called.due:
            self._set_near(True)
            return flat(function, inputs, captured)
        if _is_of_others(called) or not self._calling.acquire(blocking=False):
            return flat(function, inputs, captured)
        begin = time.perf_counter()
        try:
            self._set_near(False)
            called.due, given = called.later(), [*inputs, *captured]
            state = self._next(called, function, given) if _can_be_measured(context()) else _ended(called.state)
            called.state = state
            if isinstance(state, InTurn):
                return self._part(called, state, flat, plain, function, inputs, captured)
            return flat(function, inputs, captured)
        finally:
            self._thread.inside = time.perf_counter() - begin
            self._calling.release()

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
                if self._thread.part is not None:
                    called, turn, is_ours = self._thread.part
                    around = time.perf_counter() - start - self._thread.inside
                    self._end_part(called, turn, is_ours, max(0.0, around) * 1e6)

        return __call__

    def _set_near(self, near: bool) -> None:
        if near != self._near:
            self._near = near
            self.on_near(near)

    def entries(self) -> list[StepEntry]:
        """What was measured of each function of which regions were made."""
        return [_entry(called) for called in list(self._functions) if self._has_regions(called)]

    def _has_regions(self, called: Function) -> bool:
        """As was found when it was looked at; later its graph may be gone."""
        state = called.state
        if isinstance(state, Waiting | Settling):
            return self._is_stitched(called.name)
        return not isinstance(state, Left) or state.stitched

    def region_gives_way(self, from_call: int, known: bool) -> None:
        """A region runs TensorFlow's ops from a call on. What was measured of its kernels does not hold then, unless
        that was `known` before."""
        self._not_before = max(self._not_before, from_call + _AFTER_CHANGE if from_call else 0)
        for measured in self._all_measured():
            with self._changing:
                outdated = measured.times.turns > 0 and not known
                if outdated:
                    measured.times, measured.recalled = StepTimes(), 0
            if outdated:
                self._keep(measured)

    def end(self) -> None:
        """Keeps what was measured."""
        for measured in self._all_measured():
            if measured.times.turns > measured.recalled:
                self._keep(measured)

    def _all_measured(self) -> list[Measured]:
        return [called.measured for called in list(self._functions) if called.measured is not None]

    def _new(self, function: Any) -> Function:
        called = Function(function._inference_function.name.decode(), FIRST_LOOK)
        setattr(function, _CALLED, called)
        if len(self._functions) > _MOST_FUNCTIONS:
            self._functions[:] = [one for one in self._functions if not isinstance(one.state, Waiting | Settling)]
        self._functions.append(called)
        return called

    def _next(self, called: Function, function: Any, inputs: Sequence[Any]) -> State:
        """The state of a function in a call that is due, and when the next one is."""
        state = called.state
        if isinstance(state, Waiting):
            return self._settled(called, function)
        if called.calls < self._not_before:
            called.due = max(called.due, self._not_before)
            return _ended(state)
        if isinstance(state, Settling):
            state = self._looked_at(called, state, inputs)
        if not isinstance(state, Left) and state.measured.times.turns >= MOST_TURNS:
            state = Left("", state.measured)
        if isinstance(state, Left):
            called.due = NEVER
            return state
        measured = state.measured
        if self._key(measured.function_key, inputs) != measured.key:  # sizes that come now and then
            return Between(measured)
        if isinstance(state, InTurn) and state.thread == threading.get_ident():
            state.last = called.calls
            return state
        is_cheap = measured.spent < _SHARE * (time.monotonic() - measured.since)
        return InTurn(measured, called.calls) if is_cheap or not measured.times.enough else Between(measured)

    def _settled(self, called: Function, function: Any) -> State:
        """After a look at whether kernels run."""
        name = called_name(function)
        called.due = called.calls + SETTLING
        if self._first_calls is not None and not self._first_calls.is_over(name):
            return Waiting()
        may_replace = self._first_calls is not None and self._first_calls.changes_any_time(name.decode())
        return Settling(time.monotonic(), may_replace)

    def _looked_at(self, called: Function, state: Settling, inputs: Sequence[Any]) -> Between | Left:
        """After finding out how a function can be measured, and what is known of it."""
        try:
            definition = FunctionDefinition(context(), called.name.encode())
        except tf.errors.NotFoundError:
            return Left("TensorFlow has removed a function that it calls", stitched=False)
        if not self._is_stitched(called.name):
            return Left("nothing of it was stitched", stitched=False)
        if is_op_determinism_enabled():
            return Left("its results have to repeat (op determinism)")
        if context().num_gpus():
            return Left("on GPUs regions alone are timed")
        seen = why_seen(definition, inputs)
        if seen and not state.may_replace:
            return Left(seen)
        function_key = definition.key()
        measured = Measured(function_key, self._key(function_key, inputs), not seen, writes(definition.functions),
                            state.since)
        try:
            measured.times = self._store.recall(measured.key)
        except (OSError, StitchError) as error:
            self._noted(f"{error}; the step is measured again")
        measured.recalled = measured.times.turns
        return Between(measured)

    def _part(self, called: Function, turn: InTurn, flat: Flat, plain: Flat, function: Any, inputs: Sequence[Any],
              captured: Sequence[Any]) -> Any:
        """One call of the program in a turn."""
        if turn.measured.beside and turn.wants_plain:
            called.state = self._run_unseen(turn, plain, function, inputs, captured)
        if isinstance(called.state, Left):
            called.due = NEVER
            return flat(function, inputs, captured)
        if turn.wants_plain:
            with self._plain():
                result, us = _timed(plain, function, inputs, captured)
            turn.add_plain(us)
            is_ours = False
        else:
            result, us = _timed(flat, function, inputs, captured)
            turn.now_us.append(us)
            is_ours = True
        called.due = called.calls + 1
        self._set_near(True)
        if getattr(self._thread, "around", False):
            self._thread.part = called, turn, is_ours
        else:  # it is no tf.function's call
            self._end_part(called, turn, is_ours, 0.0)
        return result

    def _end_part(self, called: Function, turn: InTurn, is_ours: bool, around_us: float) -> None:
        """A call of a turn is over; perhaps the turn is, too. Other threads may have given it up meanwhile."""
        with self._changing:
            if is_ours:
                turn.around_us.append(around_us)
            if called.state is not turn or not turn.is_over:
                return
            measured = turn.measured
            called.state, called.due = Between(measured), called.later()
            measured.times = measured.times.with_turn(*turn.result())
        self._set_near(False)
        if measured.times.turns in (LEAST_TURNS, MOST_TURNS):
            self._keep(measured)

    def _run_unseen(self, turn: InTurn, plain: Flat, function: Any, inputs: Sequence[Any], captured: Sequence[Any]
                    ) -> InTurn | Left:
        """Calls of TensorFlow's graph beside the program. Before the first one it is instantiated."""
        begin = time.perf_counter()
        try:
            given = [*inputs, *captured]
            given = with_copies(given) if turn.measured.writes else given
            with self._plain():
                while turn.wants_plain:
                    turn.add_plain(_timed(plain, function, given[:len(inputs)], given[len(inputs):])[1])
        except Exception as error:  # the program's own call says what is wrong, if it is not for want of memory
            return Left(f"a call beside it failed: {type(error).__name__}", turn.measured)
        finally:
            turn.measured.spent += time.perf_counter() - begin
        return turn

    def _keep(self, measured: Measured) -> None:
        try:
            self._store.keep(measured.key, measured.times)
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


def _can_be_measured(ctx: Any) -> bool:
    """Whether a call is one as any other."""
    return is_plain_call(ctx) and not ctx.is_async() and not ctx.function_call_options.executor_type


def _is_of_others(called: Function) -> bool:
    """Whether a turn goes on that is another thread's, and not given up."""
    state = called.state
    return isinstance(state, InTurn) and state.thread != threading.get_ident() and called.calls < state.last + _STALE


def _ended(state: State) -> State:
    """A turn that was interrupted is given up."""
    return Between(state.measured) if isinstance(state, InTurn) else state


def _timed(call: Flat, *arguments: Any) -> tuple[Any, float]:
    """What a call gives, and its microseconds."""
    start = time.perf_counter()
    result = call(*arguments)
    return result, max(1e-3, (time.perf_counter() - start) * 1e6)


def _entry(called: Function) -> StepEntry:
    measured = called.measured
    times, recalled = (StepTimes(), 0) if measured is None else (measured.times, measured.recalled)
    return StepEntry(called.name, called.calls, times.before_us, times.now_us, recalled, _why_not(called, times))


def _why_not(called: Function, times: StepTimes) -> str:
    """Why there are too few turns; "" where there are enough."""
    if times.enough:
        return ""
    if isinstance(called.state, Waiting | Settling):
        too_few = isinstance(called.state, Settling) or called.calls < FIRST_LOOK + SETTLING
        said = "once" if called.calls == 1 else f"{called.calls} times"
        return f"called {said}, too seldom" if too_few else "its kernels came too late"
    why = called.state.why if isinstance(called.state, Left) else ""
    return why or f"{times.turns} of {LEAST_TURNS} turns were measured, too few"
