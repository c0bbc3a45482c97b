"""Which cases of a parametrised test each commit runs; the others are marked exhaustive (tests/conftest.py)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def each_commit(first: Iterable[Any], cases: Iterable[Any]) -> list[Any]:
    """All cases, of which each commit runs the `first`."""
    first, cases = list(first), list(cases)
    assert all(case in cases for case in first), "a case to run is not there"
    return [case if case in first else pytest.param(case, marks=pytest.mark.exhaustive) for case in cases]


def of_today(cases: Sequence[Any], count: int, today: dt.date | None = None) -> list[Any]:
    """As many of the cases, others each day, all of them in turn: what costs minutes and seldom breaks alone."""
    first = (today or dt.date.today()).toordinal() * count % len(cases)
    return [cases[(first + i) % len(cases)] for i in range(min(count, len(cases)))]
