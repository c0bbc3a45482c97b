"""Measures, now and then, what a call of a function would take by TensorFlow's graph and takes by ours.

A turn is two or more calls of each kind in a row, TensorFlow's first. Where the function can, it runs beside the
program (plugin/unseen_calls.py), so that callers get what the kernels compute. A function that reads a data set cannot:
while the clock still decides when its calls change over (plugin/first_calls.py), TensorFlow's calls are the program's
own, and so are the next ones. All else is as in the program: the same inputs, the same thread. What TensorFlow does in
Python around a call counts, too: of its graph's calls all of it, of ours without what plugin/function_calls.py saves.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import tensorflow as tf
from tensorflow.python.eager.context import context
from tensorflow.python.framework.config import is_op_determinism_enabled

from tf_stitch.errors import StitchError
from tf_stitch.plugin.first_calls import FirstCalls
from tf_stitch.plugin.function_definition import FunctionDefinition
from tf_stitch.plugin.held_variables import called_name, is_plain_call
from tf_stitch.plugin.measured_thread import CALLED_BEFORE, THREAD, Part, Unseen, Whole
from tf_stitch.plugin.step_states import NEVER, Between, Function, InTurn, Left, Measured, Settling, State, Waiting
from tf_stitch.plugin.unseen_calls import why_seen, with_copies, writes
from tf_stitch.report.entries import StepEntry
from tf_stitch.report.step_times import LEAST_TURNS, MOST_TURNS, StepTimes

FIRST_LOOK = 16
"""The call of a function after which it is asked whether kernels run."""
SETTLING = 24
"""Calls with kernels before the first turn: their regions are timed in these."""
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
        self._near: set[Function] = set()  # whose next call may be part of a turn
        self._found: weakref.WeakKeyDictionary[Any, Function] = weakref.WeakKeyDictionary()  # in turns, by tf.functions
        self.on_near: Callable[[bool], None] = lambda near: None
        """Is told whether the next call of some function may be a turn, when that changes."""

    def call(self, flat: Flat, function: Any, inputs: Sequence[Any], captured: Sequence[Any], plain: Flat) -> Any:
        """A call of a ConcreteFunction by `flat`; `plain` calls it by TensorFlow's way."""
        if THREAD.unseen is not None:
            return _call_unseen(THREAD.unseen, function, inputs, plain)
        called: Function | None = function.__dict__.get(_CALLED)
        if called is None:
            called = self._new(function)
        called.calls += 1
        if called.calls < called.due - 1:
            return flat(function, inputs, captured)
        if called.calls < called.due:
            self._set_near(called, True)
            return flat(function, inputs, captured)
        if _is_of_others(called) or not self._calling.acquire(blocking=False):
            return flat(function, inputs, captured)
        begin, own = time.perf_counter(), 0.0
        try:
            called.due = called.later()
            called.state = state = (self._next(called, function, inputs, captured) if _can_be_measured(context()) else
                                    _ended(called.state))
            self._set_near(called, isinstance(state, InTurn))
            if not isinstance(state, InTurn):
                return flat(function, inputs, captured)
            result, own = self._part(called, state, flat, plain, function, inputs, captured)
            return result
        finally:
            if THREAD.whole is not None:
                THREAD.whole.seconds_beside = time.perf_counter() - begin - own
            self._calling.release()

    def around(self, original: Any) -> Any:
        """tf.function's call, all of which counts."""

        @functools.wraps(original)
        def __call__(function: Any, *args: Any, **kwds: Any) -> Any:
            if not self._near or THREAD.unseen is not None:
                return original(function, *args, **kwds)
            whole = Whole(functools.partial(original, function, *args, **kwds))
            with THREAD.calls(whole, long=_is_plain_next(self._found.get(function))):
                start = time.perf_counter()
                result = whole.again()
                seconds = time.perf_counter() - start - whole.seconds_beside
            if whole.part is not None:
                self._found[function] = whole.part.called
                self._end_part(whole.part, seconds * 1e6)
            return result

        return __call__

    def _set_near(self, called: Function, near: bool) -> None:
        was = bool(self._near)
        (self._near.add if near else self._near.discard)(called)
        if bool(self._near) != was:
            self.on_near(not was)

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
        for called in list(self._functions):
            measured = called.measured
            if measured is None or known:
                continue
            with self._changing:
                outdated = measured.times.turns > 0
                if outdated:
                    measured.times, measured.own = StepTimes(), 0
                    called.since = max(called.calls, self._not_before)
            if outdated:
                self._keep(measured)

    def end(self) -> None:
        """Keeps what was measured."""
        for measured in self._all_measured():
            if measured.own:
                self._keep(measured)

    def _all_measured(self) -> list[Measured]:
        return [called.measured for called in list(self._functions) if called.measured is not None]

    def _new(self, function: Any) -> Function:
        before = function.__dict__.get(CALLED_BEFORE, 0)
        called = Function(function._inference_function.name.decode(), before + FIRST_LOOK, before)
        setattr(function, _CALLED, called)
        if len(self._functions) > _MOST_FUNCTIONS:
            self._functions[:] = [one for one in self._functions if not isinstance(one.state, Waiting | Settling)]
        self._functions.append(called)
        return called

    def _next(self, called: Function, function: Any, inputs: Sequence[Any], captured: Sequence[Any]) -> State:
        """The state of a function in a call that is due, and when the next one is."""
        state = called.state
        if isinstance(state, Waiting):
            return self._settled(called, function)
        if called.calls < self._not_before:
            called.due = max(called.due, self._not_before)
            return _ended(state)
        if isinstance(state, Settling):
            state = self._looked_at(called, state, [*inputs, *captured])
        if not isinstance(state, Left) and state.measured.own >= MOST_TURNS:
            state = Left("", state.measured)
        if isinstance(state, Left):
            called.due = NEVER
            return state
        measured, shapes = state.measured, [tensor.shape for tensor in inputs]
        if isinstance(state, InTurn) and state.thread == threading.get_ident():
            state.last = called.calls
            return state if shapes == state.shapes else Between(measured)
        if self._key(measured.function_key, [*inputs, *captured]) != measured.key:  # sizes that come now and then
            return Between(measured)
        is_cheap = measured.spent < _SHARE * (time.monotonic() - measured.since)
        return InTurn(measured, called.calls, shapes) if is_cheap or not measured.times.enough else Between(measured)

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
        function_key = definition.key()
        measured = Measured(function_key, self._key(function_key, inputs), not seen, writes(definition.functions),
                            state.since)
        try:
            measured.times = self._store.recall(measured.key)
        except (OSError, StitchError) as error:
            self._noted(f"{error}; the step is measured again")
        return Left(seen, measured) if seen and not state.may_replace else Between(measured)

    def _part(self, called: Function, turn: InTurn, flat: Flat, plain: Flat, function: Any, inputs: Sequence[Any],
              captured: Sequence[Any]) -> tuple[Any, float]:
        """One call of the program in a turn: what it gives, and its seconds."""
        if turn.measured.beside and turn.wants_plain:
            called.state = self._run_unseen(turn, plain, Unseen(function, [*inputs, *captured]), len(inputs))
        if isinstance(called.state, Left):
            called.due = NEVER
            self._set_near(called, False)
            return flat(function, inputs, captured), 0.0
        is_plain = turn.wants_plain
        with THREAD.calls_plain() if is_plain else contextlib.nullcontext():
            result, us = _timed(plain if is_plain else flat, function, inputs, captured)
        called.due = called.calls + 1
        part = Part(called, turn, is_plain)
        if THREAD.whole is None:  # it is no tf.function's call
            self._end_part(part, us)
        else:
            THREAD.whole.part = part
        return result, us / 1e6

    def _end_part(self, part: Part, us: float) -> None:
        """A call of a turn is over; perhaps the turn is, too. Other threads may have given it up meanwhile."""
        called, turn = part.called, part.turn
        with self._changing:
            turn.add(us, part.plain)
            if called.state is not turn or not turn.is_over:
                return
            measured = turn.measured
            called.state, called.due = Between(measured), called.later()
            measured.times, measured.own = measured.times.with_turn(*turn.result()), measured.own + 1
        self._set_near(called, False)
        if measured.own in (LEAST_TURNS, MOST_TURNS):
            self._keep(measured)

    def _run_unseen(self, turn: InTurn, plain: Flat, call: Unseen, arguments: int) -> InTurn | Left:
        """Calls of TensorFlow's graph beside the program. Before the first one it is instantiated.

        Args:
            arguments: how many of what is given are no captures.
        """
        begin, whole = time.perf_counter(), THREAD.whole
        try:
            call = replace(call, given=with_copies(call.given)) if turn.measured.writes else call
            again = whole.again if whole is not None else functools.partial(
                plain, call.function, call.given[:arguments], call.given[arguments:])
            with THREAD.calls_unseen(call):
                while turn.wants_plain:
                    turn.add(_timed(again)[1], plain=True)
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


def _can_be_measured(ctx: Any) -> bool:
    """Whether a call is one as any other."""
    return is_plain_call(ctx) and not ctx.is_async() and not ctx.function_call_options.executor_type


def _is_of_others(called: Function) -> bool:
    """Whether a turn goes on that is another thread's, and not given up."""
    state = called.state
    return isinstance(state, InTurn) and state.thread != threading.get_ident() and called.calls < state.last + _STALE


def _is_plain_next(called: Function | None) -> bool:
    """Whether the program's next call of a function runs TensorFlow's graph, as far as that is known."""
    if called is None or called.measured is None or called.measured.beside:
        return False
    state = called.state
    return state.wants_plain if isinstance(state, InTurn) else called.calls + 1 >= called.due


def _call_unseen(call: Unseen, function: Any, inputs: Sequence[Any], plain: Flat) -> Any:
    """
    Raises:
        StitchError: the call that was repeated is one of another function now.
    """
    if function is not call.function:
        raise StitchError("the same call is one of another function now")
    return plain(function, call.given[:len(inputs)], call.given[len(inputs):])


def _ended(state: State) -> State:
    """A turn that was interrupted is given up."""
    return Between(state.measured) if isinstance(state, InTurn) else state


def _timed(call: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """What a call gives, and its microseconds."""
    start = time.perf_counter()
    result = call(*arguments)
    return result, max(1e-3, (time.perf_counter() - start) * 1e6)


def _entry(called: Function) -> StepEntry:
    measured = called.measured
    times, own = (StepTimes(), 0) if measured is None else (measured.times, measured.own)
    return StepEntry(called.name, called.calls, times.before_us, times.now_us, times.turns - own,
                     _why_not(called, times))


def _why_not(called: Function, times: StepTimes) -> str:
    """Why there are too few turns; "" where there are enough."""
    if times.enough:
        return ""
    if isinstance(called.state, Waiting | Settling):
        too_few = called.calls < FIRST_LOOK + SETTLING
        said = "once" if called.calls == 1 else f"{called.calls} times"
        return f"called {said}, too seldom" if too_few else "its kernels came too late"
    why = called.state.why if isinstance(called.state, Left) else ""
    return why or f"{times.turns} of {LEAST_TURNS} turns were measured, too few"
