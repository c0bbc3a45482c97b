"""Which cases of a parametrised test each commit runs; the others are marked exhaustive (tests/conftest.py)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def each_commit(first: Iterable[Any], cases: Iterable[Any]) -> list[Any]:
    """All cases, of which each commit runs the `first`."""
    return [case if now else pytest.param(case, marks=pytest.mark.exhaustive) for case, now in _cases(first, cases)]


def rows_of_each_commit(first: Iterable[Sequence[Any]], rows: Iterable[Sequence[Any]]) -> list[Any]:
    """As each_commit, of cases that are values of several parameters."""
    return [row if now else pytest.param(*row, marks=pytest.mark.exhaustive) for row, now in _cases(first, rows)]


def _cases(first: Iterable[Any], cases: Iterable[Any]) -> list[tuple[Any, bool]]:
    """All of them, and whether each commit runs it."""
    first, cases = list(first), list(cases)
    assert all(case in cases for case in first), "a case to run is not there"
    return [(case, case in first) for case in cases]


def of_today(cases: Sequence[Any], count: int, today: dt.date | None = None) -> list[Any]:
    """As many of the cases, others each day, all of them in turn: what costs minutes and seldom breaks alone."""
    first = (today or dt.date.today()).toordinal() * count % len(cases)
    return [cases[(first + i) % len(cases)] for i in range(min(count, len(cases)))]
