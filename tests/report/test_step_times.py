"""Times of steps: the fastest quarter counts."""

from __future__ import annotations

import pytest

from tf_stitch.report.step_times import LEAST_TURNS, StepTimes, fastest_quarter


def test_a_measurement_that_was_interrupted_does_not_count() -> None:
    """The program had lost the core in one of the turns, on one of the sides."""
    times = StepTimes((10.0,) * 4, (5.0,) * 4)
    assert (times.before, times.now) == (10.0, 5.0)
    assert times.with_turn(17_070.0, 5.0).before == 10.0
    assert times.with_turn(10.0, 17_070.0).now == 5.0


def test_the_fastest_quarter_is_a_mean() -> None:
    assert fastest_quarter([8.0, 1.0, 3.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0]) == 2.0
    assert fastest_quarter([4.0, 3.0]) == 3.0
    with pytest.raises(ValueError, match="no times"):
        fastest_quarter([])


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
