"""Time in which a device works, on whatever streams."""

from __future__ import annotations

from tools.benchmark.device_time import covered, summed


def test_what_runs_at_the_same_time_counts_once() -> None:
    assert covered([(0, 4), (6, 7), (1, 2), (3, 5)]) == 6
    assert covered([]) == 0


def test_kernels_of_several_calls() -> None:
    found = summed([("a", 0.0, 4.0), ("b", 2.0, 7.0), ("a", 10.0, 2.0)], calls=2)
    assert found == {"device_us": 5.5, "kernels": [["b", 0.5, 3.5], ["a", 1.0, 3.0]]}
