"""The least memory that the values of a region take at one time, in whichever order its steps run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def least_live_bytes(sizes: Sequence[int], uses: Sequence[Sequence[int]], waits: Sequence[Sequence[int]]) -> int:
    """Bytes that are alive at one time, at least: while a step runs, its own values are, and those that a step before
    it in every order writes and one after it in every order reads.

    Args:
        sizes: bytes of each value.
        uses: numbers of the values that each step writes or reads; the first of the steps that use one writes it.
        waits: for each step earlier ones that come before it in every order.
    """
    before, after = _reached(waits), [1 << step for step in range(len(waits))]
    for step in reversed(range(len(waits))):
        for one in waits[step]:
            after[one] |= after[step]
    writer: dict[int, int] = {}
    until: dict[int, int] = {}
    for step, values in enumerate(uses):
        for value in values:
            writer.setdefault(value, step)
            until[value] = until.get(value, 0) | before[step]
    alive = np.zeros(len(uses), np.int64)
    for value, first in writer.items():
        alive += sizes[value] * _bits(after[first] & until[value], len(uses))
    return int(alive.max(initial=0))


def _reached(waits: Sequence[Sequence[int]]) -> list[int]:
    """For each step all that come before it, and itself, as bits."""
    found: list[int] = []
    for step, earlier in enumerate(waits):
        mask = 1 << step
        for one in earlier:
            mask |= found[one]
        found.append(mask)
    return found


def _bits(mask: int, count: int) -> NDArray[np.int64]:
    """The lowest `count` bits, as numbers."""
    raw = np.frombuffer(mask.to_bytes(-(-count // 8), "little"), np.uint8)
    return np.unpackbits(raw, count=count, bitorder="little").astype(np.int64)
