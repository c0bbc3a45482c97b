"""Which steps of an executable have to wait for which: the edges of its CUDA graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tf_stitch.runtime.executable import BufferRef, Space


@dataclass(frozen=True)
class Access:
    """Bytes [ref.index, ref.index + nbytes) of the arena, or a whole buffer of another space."""

    ref: BufferRef
    nbytes: int
    writes: bool

    def conflicts(self, other: Access) -> bool:
        """Whether the two may not change places: one writes what the other touches."""
        if not (self.writes or other.writes) or self.ref.space is not other.ref.space:
            return False
        if self.ref.space is not Space.ARENA:
            return self.ref.index == other.ref.index
        return self.ref.index < other.ref.index + other.nbytes and other.ref.index < self.ref.index + self.nbytes


def predecessors(accesses: Sequence[Sequence[Access]]) -> list[tuple[int, ...]]:
    """For each step the earlier steps it has to wait for, without those that they wait for themselves.

    Args:
        accesses: of each step, in an order in which the steps can run.
    """
    before: list[int] = []  # of each step all steps it comes after, as bits
    direct: list[tuple[int, ...]] = []
    for i, own in enumerate(accesses):
        reached, chosen = 0, []
        for j in range(i - 1, -1, -1):
            if not reached >> j & 1 and any(a.conflicts(b) for a in own for b in accesses[j]):
                chosen.append(j)
                reached |= before[j] | 1 << j
        before.append(reached)
        direct.append(tuple(reversed(chosen)))
    return direct
