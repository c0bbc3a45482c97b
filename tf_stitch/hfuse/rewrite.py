"""Replacements in a text, by bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Edit:
    """The bytes from `start` to `end` become `text`."""

    start: int
    end: int
    text: str = ""


def apply(text: bytes, edits: Iterable[Edit]) -> bytes:
    """The text with all replacements; those inside of a larger one go with it, and what is
    inserted stands before what is replaced there."""
    result: list[bytes] = []
    at = 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end > e.start, -e.end)):
        if edit.start < at:
            continue
        result += [text[at : edit.start], edit.text.encode()]
        at = max(at, edit.end)
    return b"".join([*result, text[at:]])
