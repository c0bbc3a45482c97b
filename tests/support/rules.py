"""A rule that many things keep is one test, which lists all that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TypeVar

T = TypeVar("T")


def holds_for(cases: Iterable[T]) -> Callable[[Callable[[T], None]], Callable[[], None]]:
    """A decorator that makes one test of a check of one case."""
    all_cases = list(cases)
    assert all_cases, "a rule about nothing cannot fail"

    def decorate(check: Callable[[T], None]) -> Callable[[], None]:
        def test() -> None:
            failed = []
            for case in all_cases:
                try:
                    check(case)
                except AssertionError as error:
                    failed.append(str(error).partition("\n")[0] or str(case))
            assert not failed, f"{len(failed)} of {len(all_cases)}:\n" + "\n".join(failed)

        made: Callable[[], None] = wraps(check)(test)
        del made.__wrapped__  # type: ignore[attr-defined]  # pytest would ask for its argument
        return made

    return decorate
