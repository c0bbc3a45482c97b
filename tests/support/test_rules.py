"""A rule's test lists every case that breaks it."""

from __future__ import annotations

import pytest

from tests.support.rules import holds_for


def test_every_case_that_fails_is_listed() -> None:
    @holds_for(range(5))
    def is_small(number: int) -> None:
        assert number < 3, f"{number} is large"

    with pytest.raises(AssertionError, match="2 of 5:\n3 is large\n4 is large"):
        is_small()


def test_a_rule_that_all_keep() -> None:
    asked = []
    holds_for("ab")(asked.append)()
    assert asked == ["a", "b"]


def test_a_rule_about_nothing() -> None:
    with pytest.raises(AssertionError, match="about nothing"):
        holds_for([])
