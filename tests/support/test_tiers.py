"""Which cases a commit runs."""

from __future__ import annotations

import datetime as dt

from tests.support.tiers import of_today

DAY = dt.date(2026, 11, 29)


def test_all_cases_take_turns() -> None:
    days = [of_today("abcde", 2, DAY + dt.timedelta(days=i)) for i in range(5)]
    assert all(len(set(day)) == 2 for day in days)
    assert [sum(case in day for day in days) for case in "abcde"] == [2] * 5


def test_fewer_cases_than_are_wanted() -> None:
    assert of_today("ab", 3, DAY) in (["a", "b"], ["b", "a"])
