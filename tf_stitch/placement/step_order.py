"""Which steps of an executable have to wait for which: the edges of its CUDA graph."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from tf_stitch.placement.executable import BufferRef
from tf_stitch.placement.executable_format import Space


@dataclass(frozen=True)
class Access:
    """Bytes [ref.index, ref.index + nbytes) of the arena, or a whole buffer of another space. Two steps may not change
    places if one writes what the other touches."""

    ref: BufferRef
    nbytes: int
    writes: bool


def predecessors(accesses: Sequence[Sequence[Access]]) -> list[tuple[int, ...]]:
    """For each step the earlier steps it has to wait for, without those that they wait for themselves.

    Args:
        accesses: of each step, in an order in which the steps can run.
    """
    memories: dict[object, _Memory] = {}
    before: list[int] = []  # of each step all steps it comes after, as bits
    direct: list[tuple[int, ...]] = []
    for i, own in enumerate(accesses):
        pieces = [(memories.setdefault(_memory(a), _Memory()), *_range(a), a.writes) for a in own]
        # Who touched bytes before they were written last comes before that step.
        candidates = {j for memory, begin, end, writes in pieces for last in memory.touched(begin, end)
                      for j in (last.waited_for_by_writers if writes else last.written)}
        reached, chosen = 0, []
        for j in sorted(candidates, reverse=True):
            if not reached >> j & 1:
                chosen.append(j)
                reached |= before[j] | 1 << j
        before.append(reached)
        direct.append(tuple(reversed(chosen)))
        for memory, begin, end, writes in pieces:
            if writes:
                memory.write(begin, end, i)
        for memory, begin, end, writes in pieces:
            if not writes:
                memory.read(begin, end, i)
    return direct


def _memory(access: Access) -> object:
    return Space.ARENA if access.ref.space is Space.ARENA else access.ref


def _range(access: Access) -> tuple[int, int]:
    """Its bytes of the arena; of another buffer the size does not matter."""
    ref = access.ref
    return (ref.index, ref.index + access.nbytes) if ref.space is Space.ARENA else (0, 1)


@dataclass
class _Touched:
    """Who touched some bytes last.

    Attributes:
        written: the step that wrote them last, if one did.
        read: those that have read them since.
    """

    written: Sequence[int]
    read: list[int]

    @property
    def waited_for_by_writers(self) -> Sequence[int]:
        return (*self.written, *self.read)


class _Memory:
    """Stretches of bytes that the same steps touched last. What a step writes is one stretch from then on: so a step
    looks at those who touched its memory last, not at all whose memory it was before."""

    def __init__(self) -> None:
        self._begins = [0]  # each stretch ends where the next one begins
        self._stretches = [_Touched((), [])]

    def touched(self, begin: int, end: int) -> Sequence[_Touched]:
        """Who touched any of the bytes [begin, end) last."""
        first = bisect_right(self._begins, begin) - 1
        return self._stretches[first:bisect_left(self._begins, end)]

    def write(self, begin: int, end: int, step: int) -> None:
        low, high = self._cut(begin), self._cut(end)
        self._begins[low:high] = [begin]
        self._stretches[low:high] = [_Touched((step,), [])]

    def read(self, begin: int, end: int, step: int) -> None:
        low, high = self._cut(begin), self._cut(end)
        for stretch in self._stretches[low:high]:
            stretch.read.append(step)

    def _cut(self, at: int) -> int:
        """The number of the stretch that begins there from now on."""
        number = bisect_left(self._begins, at)
        if number == len(self._begins) or self._begins[number] != at:
            whole = self._stretches[number - 1]
            self._begins.insert(number, at)
            self._stretches.insert(number, _Touched(whole.written, [*whole.read]))
        return number
