"""Which bytes of a memory are taken at which times, so that the lowest free place is found without looking at every
value there is."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache

from tf_stitch.kernel_ir.first_fit import first_fit


class IntervalAllocator:
    """A binary tree over times. A node stands for a span of them, the root (1) for all; node i has the halves 2i and
    2i + 1. A time from which to which bytes are taken is cut into the largest such spans, at most two of each length.

    Looking for a place takes a few unions of bytes, which are mostly one range each where memory is packed well:
    values beside each other are one range of all the spans above theirs.

    Args:
        times: bytes are taken at times 0 to `times` - 1.
    """

    def __init__(self, times: int) -> None:
        self._leaves = 1 << max(times - 1, 0).bit_length()
        self._throughout: dict[int, _Ranges] = {}  # node -> bytes taken for its whole span, said of this node
        self._sometimes: dict[int, _Ranges] = {}  # node -> bytes taken at any time of its span, said of it or below

    def gap(self, nbytes: int, first: int, last: int) -> int:
        """The lowest offset of this many bytes (one at least) that are free from time `first` to `last`."""
        spans, above = _spans(self._leaves, first, last)
        ranges = [self._sometimes.get(node) for node in spans]
        ranges += [self._throughout.get(node) for node in above]
        return first_fit(nbytes, [taken for some in ranges if some is not None for taken in some.pairs()])

    def take(self, begin: int, end: int, first: int, last: int) -> None:
        """Takes bytes [begin, end) from time `first` to `last`."""
        spans, above = _spans(self._leaves, first, last)
        for node in spans:
            self._throughout.setdefault(node, _Ranges()).add(begin, end)
        for node in (*spans, *above):
            self._sometimes.setdefault(node, _Ranges()).add(begin, end)


@lru_cache(maxsize=64)
def _spans(leaves: int, first: int, last: int) -> tuple[Sequence[int], Sequence[int]]:
    """The nodes of a tree that make up the times `first` to `last`, and all above these. Cached, since a value is tried
    in several memories, whose trees have the same shape."""
    spans = list(_cut(leaves, first, last))
    return spans, list(_above(spans))


def _cut(leaves: int, first: int, last: int) -> Iterator[int]:
    low, high = first + leaves, last + leaves + 1
    while low < high:
        if low & 1:
            yield low
            low += 1
        if high & 1:
            high -= 1
            yield high
        low, high = low >> 1, high >> 1


def _above(nodes: list[int]) -> set[int]:
    found: set[int] = set()
    for node in nodes:
        node >>= 1
        while node and node not in found:
            found.add(node)
            node >>= 1
    return found


class _Ranges:
    """A set of bytes: ranges in order that do not touch."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def pairs(self) -> Iterator[tuple[int, int]]:
        return zip(self._begins, self._ends, strict=True)

    def add(self, begin: int, end: int) -> None:
        low, high = bisect_left(self._ends, begin), bisect_right(self._begins, end)  # those that it touches
        if low < high:
            begin, end = min(begin, self._begins[low]), max(end, self._ends[high - 1])
        self._begins[low:high], self._ends[low:high] = [begin], [end]
