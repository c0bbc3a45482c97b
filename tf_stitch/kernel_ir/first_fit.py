"""The lowest place in a memory that is free."""

from __future__ import annotations

from collections.abc import Iterable


def first_fit(size: int, taken: Iterable[tuple[int, int]]) -> int:
    """The lowest offset at which `size` bytes overlap none of the ranges [begin, end) that are taken."""
    offset = 0
    for begin, end in sorted(taken):
        if begin >= offset + size:
            break
        offset = max(offset, end)
    return offset
