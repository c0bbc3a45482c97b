"""Turns of a function's two forms, on a clock that the test turns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import tensorflow as tf

from tf_stitch.errors import DamagedFileError
from tf_stitch.plugin import step_turns
from tf_stitch.plugin.measured_thread import THREAD
from tf_stitch.plugin.step_turns import FIRST_LOOK, SETTLING, StepTurns
from tf_stitch.report.entries import StepEntry
from tf_stitch.report.step_times import LEAST_TURNS, MOST_TURNS, StepTimes

BEGIN = FIRST_LOOK + SETTLING
"""The call with the first turn."""


class Clock:
    """Stands for `time`."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    monotonic = perf_counter


class Stored(dict[str, StepTimes]):
    """Stands for a StepStore."""

    def recall(self, key: str) -> StepTimes:
        return self.get(key, StepTimes())

    def keep(self, key: str, times: StepTimes) -> None:
        self[key] = times


class FirstCalls:
    """Stands for plugin.first_calls: how many calls run TensorFlow's graph, and whether the clock decides."""

    def __init__(self, over: bool = True, any_time: bool = False) -> None:
        self.over, self.any_time = over, any_time

    def is_over(self, name: bytes) -> bool:
        return self.over

    def changes_any_time(self, graph: str) -> bool:
        return self.any_time


class Program:
    """Calls one function, whose calls take `before` seconds by TensorFlow's graph and `now` by ours."""

    def __init__(self, clock: Clock, function: Callable[..., Any], *arguments: Any, stored: Stored | None = None,
                 before: float = 0.008, now: float = 0.004, first_calls: Any = None, stitched: bool = True) -> None:
        self.clock, self.arguments, self.before, self.now = clock, arguments, before, now
        self.function = tf.function(function).get_concrete_function(*arguments)
        self.stored, self.noted = Stored() if stored is None else stored, list[str]()
        self.turns = StepTurns(self.stored, lambda key, inputs: f"{key} {[x.shape for x in inputs]}",
                               lambda name: self.stitched, first_calls, self.noted.append)
        self.plain, self.stitched = 0, stitched

    def flat(self, function: Any, inputs: Sequence[Any], captured: Sequence[Any]) -> str:
        assert not THREAD.plain
        self.clock.now += self.now
        return "ours"

    def plain_flat(self, function: Any, inputs: Sequence[Any], captured: Sequence[Any]) -> str:
        assert THREAD.plain
        self.plain += 1
        self.clock.now += self.before
        return "TensorFlow's"

    def call(self, *arguments: Any) -> str:
        result: str = self.turns.call(self.flat, self.function, list(arguments or self.arguments),
                                      self.function.captured_inputs, self.plain_flat)
        return result

    def calls(self, count: int) -> list[str]:
        return [self.call() for _ in range(count)]

    @property
    def entry(self) -> StepEntry:
        [entry] = self.turns.entries()
        return entry


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(step_turns, "time", made)
    return made


X: Any


@pytest.fixture(scope="module", autouse=True)
def x() -> None:
    """Not before tests run: see tests/support/workers.py."""
    global X
    X = tf.constant([1.0, 2.0])


def add(x: tf.Tensor) -> tf.Tensor:
    return x + 1.0


def test_both_forms_are_measured_in_turns(clock: Clock) -> None:
    program = Program(clock, add, X)
    assert set(program.calls(BEGIN - 1)) == {"ours"}
    assert program.plain == 0
    assert program.entry.why_not == f"called {BEGIN - 1} times, too seldom"
    assert set(program.calls(60)) == {"ours"}, "callers get what the kernels compute"
    assert program.entry.why_not == ""
    times = StepTimes(program.entry.before_us, program.entry.now_us)
    assert times.turns >= LEAST_TURNS
    assert (times.before, times.now) == pytest.approx((8_000, 4_000))


def test_a_descheduled_call_does_not_count(clock: Clock) -> None:
    program = Program(clock, add, X, before=6.8)  # 1,707 times as long
    program.calls(BEGIN + 2)
    program.before = 0.004
    program.calls(60)
    times = StepTimes(program.entry.before_us, program.entry.now_us)
    assert max(times.before_us) > 1e6
    assert times.before == times.now == pytest.approx(4_000)


def test_a_slower_program_is_seen(clock: Clock) -> None:
    program = Program(clock, add, X, before=0.004, now=0.005)
    program.calls(BEGIN + 60)
    times = StepTimes(program.entry.before_us, program.entry.now_us)
    assert times.now / times.before == pytest.approx(1.25)


def test_too_few_turns_are_told(clock: Clock) -> None:
    program = Program(clock, add, X)
    program.calls(BEGIN + 2)
    assert program.entry.why_not == f"1 of {LEAST_TURNS} turns were measured, too few"


def test_it_costs_little(clock: Clock) -> None:
    """At first as much as a few steps; then a fiftieth of the program."""
    program = Program(clock, add, X)
    program.calls(BEGIN + 60)
    assert program.plain == 1 + 2 * LEAST_TURNS
    program.calls(5_000)
    assert program.plain * program.before < 0.025 * clock.now
    assert program.entry.before_us[LEAST_TURNS:]


def test_short_calls_come_in_longer_rows(clock: Clock) -> None:
    """The first ones find caches that are the other kind's."""
    program = Program(clock, add, X, before=0.001, now=0.0001)
    program.calls(BEGIN)
    assert program.plain == 1 + 10
    program.calls(200)
    assert program.plain == 1 + 10 * LEAST_TURNS


def test_a_later_process_goes_on(clock: Clock) -> None:
    """What rests on few turns is not repeated for ever, and what a busy machine measured neither."""
    first = Program(clock, add, X)
    first.calls(BEGIN + 2)
    first.turns.end()
    second = Program(clock, add, X, stored=first.stored)
    second.calls(10_000)
    assert (second.entry.recalled, len(second.entry.before_us)) == (0, MOST_TURNS)
    third = Program(clock, add, X, stored=first.stored, before=0.012)
    third.calls(BEGIN - 1)
    third.turns.end()
    third.calls(300)
    assert 0 < third.entry.recalled < MOST_TURNS
    assert third.plain * third.before < 0.02 * 300 * third.now + 3 * third.before, "a fiftieth, and one turn"
    third.calls(10_000)
    assert third.entry.before_us == pytest.approx((12_000,) * MOST_TURNS)
    third.turns.end()
    assert [times.before_us for times in third.stored.values()] == [pytest.approx((12_000,) * MOST_TURNS)]


def test_a_store_that_fails_is_noted(clock: Clock) -> None:
    class Broken(Stored):
        def recall(self, key: str) -> StepTimes:
            raise DamagedFileError("a.json holds nothing")

        def keep(self, key: str, times: StepTimes) -> None:
            raise OSError("the disk is full")

    program = Program(clock, add, X, stored=Broken())
    program.calls(BEGIN + 60)
    assert program.entry.why_not == ""
    assert program.noted == ["a.json holds nothing; the step is measured again",
                             "times of a step cannot be kept: the disk is full"]


def test_on_gpus_no_call_is_timed(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """It returns before the GPU has done its work."""
    program = Program(clock, add, X)
    monkeypatch.setattr(type(step_turns.context()), "num_gpus", lambda self: 1)
    program.calls(BEGIN + 100)
    assert program.plain == 0
    assert (program.entry.why_not, program.entry.before_us) == ("on GPUs regions alone are timed", ())


def test_other_sizes_are_not_mixed(clock: Clock) -> None:
    program = Program(clock, add, X)
    program.calls(BEGIN)
    plain = program.plain
    for _ in range(100):
        program.call(tf.constant([1.0, 2.0, 3.0]))
    assert program.plain == plain


def test_variables_are_left_alone(clock: Clock) -> None:
    """TensorFlow's graph runs on copies, beside the program."""
    variable = tf.Variable(1.0)
    program = Program(clock, lambda x: variable.assign_add(tf.reduce_sum(x)), X)
    given: list[Any] = []

    def plain(function: Any, inputs: Sequence[Any], captured: Sequence[Any]) -> Any:
        given.extend(captured)
        clock.now += program.before
        return type(function)._call_flat(function, inputs, captured)

    program.plain_flat = plain  # type: ignore[method-assign]
    program.calls(BEGIN + 60)
    assert len(given) == 1 + 2 * LEAST_TURNS
    assert float(variable) == 1.0
    assert float(tf.raw_ops.ReadVariableOp(resource=given[-1], dtype=tf.float32)) == 1.0 + 3.0 * 2
    assert program.entry.why_not == ""


def test_what_cannot_run_beside_takes_its_turns_while_it_may(clock: Clock) -> None:
    """Calls of a function that reads a data set are the program's own, while the clock decides which graph they run."""
    iterator = iter(tf.data.Dataset.range(10).repeat())

    def step() -> tf.Tensor:
        return next(iterator) + 1

    told = Program(clock, step, first_calls=FirstCalls())
    assert set(told.calls(BEGIN + 60)) == {"ours"}
    assert told.entry.why_not == "it reads a data set, a table or another resource"
    measured = Program(clock, step, first_calls=FirstCalls(any_time=True))
    assert measured.calls(BEGIN + 200).count("TensorFlow's") == measured.plain
    times = StepTimes(measured.entry.before_us, measured.entry.now_us)
    assert times.enough
    assert (times.before, times.now) == pytest.approx((8_000, 4_000))
    later = Program(clock, step, first_calls=FirstCalls(), stored=measured.stored)
    assert set(later.calls(BEGIN + 60)) == {"ours"}
    assert later.entry.why_not == "", "an earlier process has measured it"
    assert later.entry.recalled == len(later.entry.before_us)


def test_a_function_is_measured_once_kernels_run(clock: Clock) -> None:
    first_calls = FirstCalls(over=False)
    program = Program(clock, add, X, first_calls=first_calls)
    program.calls(500)
    assert program.plain == 0
    assert program.entry.why_not == "its kernels came too late"
    first_calls.over = True
    program.calls(SETTLING)
    assert program.plain == 0
    assert program.entry.why_not == "its kernels came too late", "not that 500 calls are too few"
    program.calls(500)
    assert program.plain > 0


def test_a_region_that_gives_way_makes_it_measured_again(clock: Clock) -> None:
    """What kernels took that do not run any more says nothing."""
    program = Program(clock, add, X, now=0.012)
    program.calls(BEGIN + 60)
    program.turns.region_gives_way(0, known=True)
    assert program.entry.before_us
    program.turns.region_gives_way(512, known=False)
    assert program.entry.before_us == ()
    assert set(program.stored.values()) == {StepTimes()}
    plain = program.plain
    program.calls(512 - BEGIN - 60)
    assert program.plain == plain
    program.now = 0.004
    program.calls(100)
    times = StepTimes(program.entry.before_us, program.entry.now_us)
    assert times.turns >= LEAST_TURNS, "as soon as at the beginning"
    assert times.now == pytest.approx(4_000)


def test_a_failed_call_beside_is_told(clock: Clock) -> None:
    program = Program(clock, add, X)

    def plain(*arguments: Any) -> Any:
        raise MemoryError

    program.plain_flat = plain  # type: ignore[method-assign]
    assert set(program.calls(BEGIN + 60)) == {"ours"}
    assert program.entry.why_not == "a call beside it failed: MemoryError"


def test_functions_without_regions_are_not_measured(clock: Clock) -> None:
    program = Program(clock, add, X, stitched=False)
    program.calls(BEGIN + 60)
    assert program.plain == 0
    assert program.turns.entries() == []


def test_a_function_that_is_gone_is_told(clock: Clock) -> None:
    program = Program(clock, add, X)
    program.calls(BEGIN + 60)
    program.stitched = False  # its graph was freed
    assert len(program.entry.before_us) >= LEAST_TURNS


def found_by(program: Program, ours: float, long: float) -> Callable[[Any], str]:
    """A tf.function's call: TensorFlow takes this many seconds to find the function that belongs to the arguments."""

    def found(function: Any) -> str:
        program.clock.now += long if THREAD.long else ours
        return program.call()

    return program.turns.around(found)  # type: ignore[no-any-return]


def test_what_tensorflow_does_around_its_own_calls_counts(clock: Clock) -> None:
    """All of it, also where ours do less."""
    program = Program(clock, add, X)
    whole = found_by(program, ours=0.002, long=0.003)
    assert {whole(program.function) for _ in range(BEGIN + 100)} == {"ours"}
    times = StepTimes(program.entry.before_us, program.entry.now_us)
    assert (times.before, times.now) == pytest.approx((11_000, 6_000))


def test_what_tensorflow_does_around_calls_of_the_program_counts(clock: Clock) -> None:
    """Where it cannot run beside the program. It is known before the call which graph will run."""
    iterator = iter(tf.data.Dataset.range(10).repeat())
    program = Program(clock, lambda: next(iterator) + 1, first_calls=FirstCalls(any_time=True))
    whole = found_by(program, ours=0.002, long=0.003)
    found = [whole(program.function) for _ in range(BEGIN + 300)]
    assert found.count("TensorFlow's") == program.plain
    assert program.entry.why_not == ""
    times = StepTimes(program.entry.before_us, program.entry.now_us)
    assert (times.before, times.now) == pytest.approx((11_000, 6_000))


def test_calls_of_two_functions_are_whole(clock: Clock) -> None:
    """One's turn ends while the other's goes on."""
    program = Program(clock, add, X)
    other = tf.function(lambda x: x * 2.0).get_concrete_function(X)
    near: list[bool] = [False]
    program.turns.on_near = lambda now: near.append(now)
    functions = (program.function, other)

    def found(function: Any) -> str:
        clock.now += 0.002
        return str(program.turns.call(program.flat, function, [X], [], program.plain_flat))

    whole = program.turns.around(found)
    for number in range(BEGIN + 200):
        for function in functions[:2 if number else 1]:  # the other is a call behind
            (whole if near[-1] else found)(function)
    for entry in program.turns.entries():
        assert entry.why_not == ""
        assert min(entry.before_us) == pytest.approx(10_000)
        assert min(entry.now_us) == pytest.approx(6_000)


def test_the_typical_call_of_a_row_counts(clock: Clock) -> None:
    """The fastest would be too good for TensorFlow's graph, whose calls wait for another thread now and then."""
    program = Program(clock, add, X, before=0.001, now=0.001)
    number = 0

    def plain_flat(function: Any, inputs: Sequence[Any], captured: Sequence[Any]) -> str:
        nonlocal number
        number += 1
        clock.now += 0.002 if number % 4 else 0.001
        return "TensorFlow's"

    program.plain_flat = plain_flat  # type: ignore[method-assign]
    program.calls(BEGIN + 200)
    times = StepTimes(program.entry.before_us, program.entry.now_us)
    assert (times.before, times.now) == pytest.approx((2_000, 1_000))


def test_calls_of_ours_fill_as_much_time(clock: Clock) -> None:
    """The first ones find caches that TensorFlow's graph has filled."""
    program = Program(clock, add, X)
    behind = 0

    def flat(function: Any, inputs: Sequence[Any], captured: Sequence[Any]) -> str:
        nonlocal behind
        behind += 1
        clock.now += 0.001 if behind > 4 else 0.0015
        return "ours"

    def plain_flat(function: Any, inputs: Sequence[Any], captured: Sequence[Any]) -> str:
        nonlocal behind
        behind = 0
        clock.now += 0.008
        return "TensorFlow's"

    program.flat, program.plain_flat = flat, plain_flat  # type: ignore[method-assign]
    program.calls(BEGIN + 200)
    assert StepTimes(program.entry.before_us, program.entry.now_us).now == pytest.approx(1_000)


def test_a_call_that_turns_out_to_be_another_functions_is_told(clock: Clock) -> None:
    program = Program(clock, add, X)
    other = tf.function(lambda x: x * 2.0).get_concrete_function(X)

    def found(function: Any) -> str:
        called = other if THREAD.unseen is not None else program.function
        return str(program.turns.call(program.flat, called, [X], [], program.plain_flat))

    whole = program.turns.around(found)
    assert {whole(program.function) for _ in range(BEGIN + 60)} == {"ours"}
    assert program.entry.why_not == "a call beside it failed: StitchError"


def in_another_thread(call: Callable[[], Any]) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def test_a_call_by_another_thread_is_no_part_of_a_turn(clock: Clock) -> None:
    """It comes after a call of the turn, and before what tf.function does around that call has ended."""
    program = Program(clock, add, X)

    calls = iter(range(1, 1000))

    def fast() -> None:
        program.now = 0.0001
        program.call()
        program.now = 0.004

    def found(function: Any) -> str:
        result = program.call()
        if next(calls) == BEGIN:
            in_another_thread(fast)
        return result

    whole = program.turns.around(found)
    for _ in range(BEGIN + 200):
        whole(program.function)
    times = StepTimes(program.entry.before_us, program.entry.now_us)
    assert times.enough
    assert (min(times.before_us), min(times.now_us)) == pytest.approx((8_000, 4_000))


def test_a_turn_whose_thread_has_ended_is_given_up(clock: Clock) -> None:
    program = Program(clock, add, X)
    in_another_thread(lambda: program.calls(BEGIN))
    assert program.plain > 0, "a turn has begun"
    program.calls(300)
    assert StepTimes(program.entry.before_us, program.entry.now_us).enough


def test_calls_by_two_threads_in_turns_are_measured(clock: Clock) -> None:
    program = Program(clock, add, X)
    for _ in range(BEGIN + 400):  # a turn ends early where the next thread has another identity than the last
        program.call()
        in_another_thread(program.call)
    assert StepTimes(program.entry.before_us, program.entry.now_us).enough
