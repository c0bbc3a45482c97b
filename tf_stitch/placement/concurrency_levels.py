"""Which kernels may run at the same time: levels, each after what it waits for."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

WORTH_WAITING = 1 << 20
"""Bytes of memory for which a kernel runs later than it could: it may share no launch then."""


@dataclass(frozen=True)
class Touch:
    """What a kernel does with a piece of memory.

    Attributes:
        nbytes: what it takes as long as it is needed; 0 where it is there anyway; None if its size changes from call to
            call, for all of which the same kernels have to share a launch.
    """

    memory: Hashable
    writes: bool
    nbytes: int | None = 0


def concurrency_levels(kernels: Sequence[Sequence[Touch]], in_turn: Mapping[int, int] | None = None
                       ) -> list[int]:
    """The level of each kernel: as soon as what it waits for has run; but one whose results take more memory than its
    operands would if they were kept until then (weights brought together, say) right before who waits for it.

    Args:
        kernels: what each touches, in an order in which they can run.
        in_turn: kernels that also wait for an earlier one, and that one.
    """
    levels: list[int] = []
    after: list[list[int]] = [[] for _ in kernels]
    for i, waits in enumerate(waits_for(kernels)):
        waits += [in_turn[i]] if in_turn and i in in_turn else []
        levels.append(max((levels[j] + 1 for j in waits), default=0))
        for j in waits:
            after[j].append(i)
    readers: dict[Hashable, list[int]] = {}
    for i, touches in enumerate(kernels):
        for touch in touches:
            if not touch.writes:
                readers.setdefault(touch.memory, []).append(i)
    for i in reversed(range(len(kernels))):
        latest = min((levels[j] - 1 for j in after[i]), default=levels[i])
        if _saved_by_waiting(kernels[i], levels[i], latest, levels, readers) > WORTH_WAITING * (latest - levels[i]):
            levels[i] = latest
    return levels


def waits_for(kernels: Sequence[Sequence[Touch]]) -> list[list[int]]:
    """For each kernel those before it that write what it touches, or read what it writes."""
    reading: dict[Hashable, list[int]] = {}  # since it was written
    written: dict[Hashable, int] = {}
    found: list[list[int]] = []
    for i, touches in enumerate(kernels):
        waits = [written[t.memory] for t in touches if t.memory in written]
        waits += [j for t in touches if t.writes for j in reading.get(t.memory, ())]
        found.append(list(dict.fromkeys(waits)))
        for touch in touches:
            if touch.writes:
                written[touch.memory], reading[touch.memory] = i, []
        for touch in touches:
            if not touch.writes:
                reading.setdefault(touch.memory, []).append(i)
    return found


def _saved_by_waiting(touches: Sequence[Touch], now: int, until: int, levels: Sequence[int],
                      readers: dict[Hashable, list[int]]) -> int:
    """Bytes times levels of memory that a kernel leaves to others if it runs in level `until`."""
    saved = 0
    for touch in touches:
        if touch.nbytes is None:
            return 0
        if touch.writes:
            saved += touch.nbytes * (until - now)
        elif touch.nbytes:
            saved -= touch.nbytes * max(0, until - max(levels[j] for j in readers[touch.memory]))
    return saved
