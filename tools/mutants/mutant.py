"""Mutants: small edits each of which breaks one mechanism, and the tests that are to see it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path


class DoesNotApplyError(Exception):
    """The text that a mutant changes is not there exactly once."""


@dataclass(frozen=True)
class Mutant:
    """An edit.

    Attributes:
        name: what is broken, in words.
        file: relative to the repository.
        old, new: text, which is there exactly once, and what takes its place.
        tests: arguments of pytest: the tests that should fail, fast ones first.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self, root: Path) -> str:
        """The file's text, mutated.

        Raises:
            DoesNotApplyError: see there.
        """
        text = (root / self.file).read_text()
        if text.count(self.old) != 1 or self.new == self.old:
            raise DoesNotApplyError(f"{self.name}: in {self.file} its text is there {text.count(self.old)} times")
        return text.replace(self.old, self.new)

    @property
    def key(self) -> str:
        """Of the edit: a result stands for it."""
        return hashlib.sha256("\0".join((self.file, self.old, self.new, *self.tests)).encode()).hexdigest()[:16]
