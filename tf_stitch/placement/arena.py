"""Where values live that steps leave for others: a few segments of memory, which values share by lifetimes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from tf_stitch.placement.interval_allocator import IntervalAllocator

PARTS = 16
"""Segments that a large arena is asked for in. TensorFlow's allocator cuts a free block in two only where it is twice
as large as what is asked for, or 128 MiB larger: as one piece 171 MiB took 256."""
SMALLEST_PART = 2 << 20


@dataclass(frozen=True)
class Lifetime:
    """A value of `nbytes` that is there from step (or level of steps) `first` to `last`."""

    nbytes: int
    first: int
    last: int


@dataclass(frozen=True)
class Arena:
    """Bytes of each segment, and for every value its offset, counted through the segments. No value lies in two."""

    segments: tuple[int, ...]
    offsets: tuple[int, ...]


def live_bytes(lifetimes: Sequence[Lifetime]) -> int:
    """Bytes of the values that are there at one time, at most: no arena can do with less."""
    change: dict[int, int] = {}
    for value in lifetimes:
        change[value.first] = change.get(value.first, 0) + value.nbytes
        change[value.last + 1] = change.get(value.last + 1, 0) - value.nbytes
    return max(accumulate(change[step] for step in sorted(change)), default=0)


def plan_arena(lifetimes: Sequence[Lifetime]) -> Arena:
    """First fit by decreasing size."""
    largest = max((value.nbytes for value in lifetimes), default=0)
    capacity = max(largest, -(-live_bytes(lifetimes) // PARTS), SMALLEST_PART)
    times = max((value.last + 1 for value in lifetimes), default=0)
    segments: list[_Segment] = []
    home: dict[int, tuple[_Segment, int]] = {}
    for i in sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i].nbytes, lifetimes[i].first)):
        value = lifetimes[i]
        for segment in segments:
            offset = segment.taken.gap(value.nbytes, value.first, value.last)
            if offset + value.nbytes <= capacity:
                break
        else:
            segment, offset = _Segment(IntervalAllocator(times)), 0
            segments.append(segment)
        segment.taken.take(offset, offset + value.nbytes, value.first, value.last)
        segment.nbytes = max(segment.nbytes, offset + value.nbytes)
        home[i] = segment, offset
    sizes = [segment.nbytes for segment in segments]
    start = {id(segment): at for segment, at in zip(segments, accumulate([0, *sizes]), strict=False)}
    return Arena(tuple(sizes), tuple(start[id(home[i][0])] + home[i][1] for i in range(len(lifetimes))))


@dataclass
class _Segment:
    taken: IntervalAllocator
    nbytes: int = 0
