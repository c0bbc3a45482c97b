"""Times of steps: the middle half of the turns counts."""

from __future__ import annotations

import pytest

from tf_stitch.report.step_times import LEAST_TURNS, MOST_TURNS, StepTimes


def test_a_measurement_that_was_interrupted_does_not_count() -> None:
    """The program had lost the core in one of the turns, on one of the sides."""
    times = StepTimes((10.0,) * 4, (5.0,) * 4)
    assert (times.before, times.now) == (10.0, 5.0)
    assert times.with_turn(17_070.0, 5.0).before == 10.0
    assert times.with_turn(10.0, 17_070.0).now == 5.0


def test_both_times_are_of_the_same_turns() -> None:
    """The machine was three times as slow in the first process, and in a calm turn one of ours lost the core. The
    fastest of each side, from different turns, would say more or less than any turn."""
    times = StepTimes((30.0, 30.6, 30.0, 10.0, 10.2, 10.0), (24.0, 24.0, 23.7, 25.0, 8.0, 8.0))
    assert times.before / times.now == pytest.approx(1.25, rel=0.02)


def test_a_quarter_at_each_end_does_not_count() -> None:
    times = StepTimes((8.0,) * 8, (1.0, 1.0, 4.0, 4.0, 2.0, 2.0, 80.0, 80.0))
    assert (times.before, times.now) == (8.0, 3.0)
    with pytest.raises(ValueError, match="no times"):
        StepTimes().before  # noqa: B018


def test_the_newest_turns_count() -> None:
    """What a busy machine measured once is not repeated for ever."""
    times = StepTimes((9.0,) * MOST_TURNS, (9.0,) * MOST_TURNS)
    for _ in range(MOST_TURNS):
        times = times.with_turn(4.0, 2.0)
    assert times == StepTimes((4.0,) * MOST_TURNS, (2.0,) * MOST_TURNS)


def test_few_turns_say_nothing() -> None:
    times = StepTimes()
    for _ in range(LEAST_TURNS):
        assert not times.enough
        times = times.with_turn(2.0, 1.0)
    assert times.enough


@pytest.mark.parametrize(("before", "now"), [((1.0,), ()), ((0.0,), (1.0,)), ((1.0,), (float("nan"),))])
def test_times_that_make_no_sense(before: tuple[float, ...], now: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="time"):
        StepTimes(before, now)
