"""Functions registered by the type of what they are for, in place of a ladder of isinstance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tf_stitch.errors import VerifyError

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class ByType(Generic[R]):
    """One function for each type, and for those below it that have none of their own.

    Args:
        what: has the functions, for the message where one is missing.
        others: a table that has the functions which this one lacks.
        otherwise: what both lack is left to.
    """

    def __init__(self, what: str, others: ByType[R] | None = None, otherwise: Callable[..., R] | None = None) -> None:
        self._what, self._otherwise = what, otherwise
        self._rules: dict[type, Callable[..., R]] = {} if others is None else dict(others._rules)

    def __call__(self, *kinds: type) -> Callable[[F], F]:
        """Registers the function below it."""
        def register(function: F) -> F:
            self._rules |= dict.fromkeys(kinds, function)
            return function

        return register

    def of(self, x: object) -> Callable[..., R]:
        """The function for `x`.

        Raises:
            VerifyError: there is none.
        """
        found = self._rules.get(type(x)) or self._inherited(type(x)) or self._otherwise
        if found is None:
            raise VerifyError(f"{self._what} has no rule for {type(x).__name__}")
        return found

    def _inherited(self, kind: type) -> Callable[..., R] | None:
        found = next((self._rules[base] for base in kind.__mro__ if base in self._rules), None)
        if found is not None:
            self._rules[kind] = found
        return found
