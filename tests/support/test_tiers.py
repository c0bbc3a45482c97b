"""Which cases a commit runs."""

from __future__ import annotations

import datetime as dt

import pytest

from tests.support.tiers import each_commit, of_today, rows_of_each_commit

DAY = dt.date(2026, 11, 29)


def test_all_cases_take_turns() -> None:
    days = [of_today("abcde", 2, DAY + dt.timedelta(days=i)) for i in range(5)]
    assert all(len(set(day)) == 2 for day in days)
    assert [sum(case in day for day in days) for case in "abcde"] == [2] * 5


def test_fewer_cases_than_are_wanted() -> None:
    assert of_today("ab", 3, DAY) in (["a", "b"], ["b", "a"])


def test_other_cases_are_exhaustive() -> None:
    first, other = each_commit([1], [1, 2])
    assert first == 1
    assert (other.values, [mark.name for mark in other.marks]) == ((2,), ["exhaustive"])
    first, other = rows_of_each_commit([(1, "a")], [(1, "a"), (2, "b")])
    assert first == (1, "a")
    assert (other.values, [mark.name for mark in other.marks]) == ((2, "b"), ["exhaustive"])


def test_a_case_to_run_has_to_be_there() -> None:
    with pytest.raises(AssertionError, match="not there"):
        each_commit([3], [1, 2])
