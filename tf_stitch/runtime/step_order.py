"""Which steps of an executable have to wait for which: the edges of its CUDA graph."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tf_stitch.runtime.executable import BufferRef
from tf_stitch.runtime.executable_format import Space


@dataclass(frozen=True)
class Access:
    """Bytes [ref.index, ref.index + nbytes) of the arena, or a whole buffer of another space. Two steps may not change
    places if one writes what the other touches."""

    ref: BufferRef
    nbytes: int
    writes: bool


Piece: TypeAlias = tuple[BufferRef, int]
"""Of memory: bytes of the arena, or a buffer, whose size does not matter."""


def predecessors(accesses: Sequence[Sequence[Access]]) -> list[tuple[int, ...]]:
    """For each step the earlier steps it has to wait for, without those that they wait for themselves.

    Args:
        accesses: of each step, in an order in which the steps can run.
    """
    overlapping = _overlaps({_piece(access) for own in accesses for access in own})
    written: dict[Piece, int] = {}  # by which step last
    read: dict[Piece, list[int]] = {}  # since then
    before: list[int] = []  # of each step all steps it comes after, as bits
    direct: list[tuple[int, ...]] = []
    for i, own in enumerate(accesses):
        # Who touched a piece before it was written last comes before that step.
        candidates = {written[piece] for a in own for piece in overlapping[_piece(a)] if piece in written}
        candidates |= {j for a in own if a.writes for piece in overlapping[_piece(a)] for j in read.get(piece, ())}
        reached, chosen = 0, []
        for j in sorted(candidates, reverse=True):
            if not reached >> j & 1:
                chosen.append(j)
                reached |= before[j] | 1 << j
        before.append(reached)
        direct.append(tuple(reversed(chosen)))
        for access in own:
            if access.writes:
                written[_piece(access)], read[_piece(access)] = i, []
        for access in own:
            if not access.writes:
                read.setdefault(_piece(access), []).append(i)
    return direct


def _piece(access: Access) -> Piece:
    return access.ref, access.nbytes if access.ref.space is Space.ARENA else 0


def _overlaps(pieces: Collection[Piece]) -> dict[Piece, list[Piece]]:
    """The pieces of memory that each shares bytes with, itself included."""
    found: dict[Piece, list[Piece]] = {}
    alive: list[Piece] = []
    for piece in sorted(pieces, key=lambda p: (p[0].space.value, p[0].index)):
        ref = piece[0]
        alive = [other for other in alive if other[0].space is ref.space and other[0].index + other[1] > ref.index]
        found[piece] = [piece, *alive]
        for other in alive:
            found[other].append(piece)
        alive.append(piece)
    return found
