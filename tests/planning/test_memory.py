"""Which values are computed again: the problem, against what a step could do."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

from tf_stitch.planning.memory import Choice, How, MemoryProblem, Use, Value, peaks, stretches

KIB = 1 << 10


def random_problem(seed: int, count: int = 4, uses: int = 3) -> MemoryProblem:
    """Values of a step of 14 times; each may be computed again of some before it, at the times at which these may be
    wanted, too."""
    rng = random.Random(seed)
    values: list[Value] = []
    for _ in range(count):
        written = rng.randrange(5)
        times = sorted(rng.sample(range(written + 1, 14), rng.randrange(1, uses + 1)))
        before = [n for n, value in enumerate(values) if value.written < written]
        own = tuple(rng.sample(before, min(len(before), rng.randrange(3))))
        found = [Use(time, time == times[-1] or rng.random() < 0.7, *(
            rng.choice((None, float(rng.randrange(1, 9)))) for _ in range(2))) for time in times]
        values.append(Value(rng.choice((1, 2, 5)) * KIB, written, tuple(found), own, rng.random() < 0.7))
    for number, value in enumerate(values):
        for source in value.sources:
            values[source] = _wanted_too(values[source], [t for t in values[number].times if rng.random() < 0.8], rng)
    return MemoryProblem(tuple(values), tuple(rng.randrange(3) * KIB for _ in range(14)))


def _wanted_too(value: Value, times: list[int], rng: random.Random) -> Value:
    new = [Use(t, False, None, rng.choice((None, 2.0))) for t in times if t not in value.times and t > value.written]
    uses = tuple(sorted((*value.uses, *new), key=lambda use: use.time))
    return Value(value.nbytes, value.written, uses, value.sources, value.by_element)


def every_choice(problem: MemoryProblem) -> Iterator[Choice]:
    """That a step could make."""
    for choice in itertools.product(*map(_ways, problem.values)):
        if not any(problem.faults(choice)):
            yield choice


def _ways(value: Value) -> list[tuple[How, ...]]:
    """In which a value without sources could be there."""
    alone = MemoryProblem((Value(value.nbytes, value.written, value.uses),), (0,) * 14)
    return [hows for hows in itertools.product(How, repeat=len(value.uses)) if not any(alone.faults((hows,)))]


def best_by_brute_force(problem: MemoryProblem, budget: int) -> tuple[float, int]:
    """The least time under a budget, infinite if there is none, and the least peak of all choices."""
    least_us, least_peak = float("inf"), problem.peak(problem.all_kept)
    for choice in every_choice(problem):
        peak = problem.peak(choice)
        least_peak = min(least_peak, peak)
        if peak <= budget:
            least_us = min(least_us, problem.us(choice))
    return least_us, least_peak


def value(*uses: Use, written: int = 0, sources: tuple[int, ...] = (), by_element: bool = True) -> Value:
    return Value(KIB, written, uses, sources, by_element)


def test_what_is_kept_is_there_throughout() -> None:
    one = value(Use(3), Use(7, read=False))
    problem = MemoryProblem((one,), (0,) * 9)
    assert problem.all_kept == ((How.KEPT, How.ABSENT),)
    assert problem.alive(problem.all_kept) == [KIB] * 4 + [0] * 5
    assert not list(problem.faults(problem.all_kept))


def test_what_is_computed_again_is_gone_in_between() -> None:
    one = value(Use(2), Use(5, again_us=3.0), Use(7, passing_us=1.0))
    problem = MemoryProblem((one,), (0,) * 9)
    for last, after in ((How.KEPT, [KIB] * 3), (How.PASSING, [KIB, 0, 0])):
        choice = ((How.KEPT, How.AGAIN, last),)
        assert problem.alive(choice) == [KIB] * 3 + [0] * 2 + after + [0]
        assert problem.us(choice) == 3.0 + (last is How.PASSING)
        assert not list(problem.faults(choice))


def test_what_no_step_could_do_is_a_fault() -> None:
    source = value(Use(2), Use(6, read=False, passing_us=1.0))
    made = value(Use(6, again_us=1.0, passing_us=1.0), written=1, sources=(0,))
    problem = MemoryProblem((source, made), (0,) * 8)
    for how in (How.AGAIN, How.PASSING):
        assert list(problem.faults(((How.KEPT, How.ABSENT), (how,)))) == [
            f"value 1 is {how.value} at 6 without value 0"]
        assert not list(problem.faults(((How.KEPT, How.KEPT), (how,))))
        assert not list(problem.faults(((How.KEPT, How.PASSING), (how,))))
    assert list(problem.faults(((How.ABSENT, How.KEPT), (How.KEPT,)))) == [
        "value 0 is absent at 2", "value 0 is kept until 6, where it was absent before"]


def test_additions_in_the_same_order_read_memory() -> None:
    source = value(Use(2), Use(6, read=False, passing_us=1.0))
    made = value(Use(6, again_us=1.0), written=1, sources=(0,), by_element=False)
    problem = MemoryProblem((source, made), (0,) * 8)
    assert list(problem.faults(((How.KEPT, How.PASSING), (How.AGAIN,))))
    assert not list(problem.faults(((How.KEPT, How.KEPT), (How.AGAIN,))))


def test_the_worst_of_times_that_are_over_a_budget() -> None:
    assert peaks([1, 5, 3, 9, 9, 2, 4], budget=2, most=9) == [3, 1, 6]
    assert peaks([1, 5, 3, 9, 9, 2, 4], budget=2, most=1) == [3]
    assert not peaks([1, 2], budget=2, most=9)


@pytest.mark.parametrize("seed", range(20))
def test_bytes_are_those_of_stretches(seed: int) -> None:
    problem = random_problem(seed)
    for choice in itertools.islice(every_choice(problem), 40):
        alive = list(problem.fixed)
        for one, hows in zip(problem.values, choice, strict=True):
            for first, last in stretches(one, hows):
                assert first <= last
                for t in range(first, last + 1):
                    alive[t] += one.nbytes
        assert problem.alive(choice) == alive
