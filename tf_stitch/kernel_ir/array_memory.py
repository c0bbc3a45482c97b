"""Arrays of a block that are not alive at the same time share memory (FusionStitching section 5.4, Algorithm 4; AStitch
section 4.4).

The paper walks a graph of ops. Here the nodes are *stretches*, what a block's threads do between two barriers (on a
CPU, where a block is one thread, single statements), and arrays. A stretch leads to the arrays that it writes, an array
to the stretches that read it, and each stretch to the next: behind a barrier every thread knows what all have done.
The stretch that immediately dominates an array on every way to the end is where the array is dead. An array that is
first touched in a later stretch may have its memory, and a barrier then stands between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import networkx as nx

from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.first_fit import first_fit
from tf_stitch.kernel_ir.walk import arrays, arrays_touched, bodies, rewritten, statements

ALIGNMENT = {k.Space.SHARED: 16, k.Space.LOCAL: 64}
"""Bytes; a vector access, and a CPU's vector register."""


@dataclass(frozen=True)
class Life:
    """An array is used from stretch `first` to stretch `last`."""

    first: int
    last: int

    def overlaps(self, other: Life) -> bool:
        return self.first <= other.last and other.first <= self.last


def is_barrier(stmt: k.Stmt, warp: int) -> bool:
    """Whether all threads of a block wait at a statement, as those of several warps do that reduce together."""
    if isinstance(stmt, k.AllReduce | k.ArgAllReduce):
        return stmt.width > warp
    return isinstance(stmt, k.Barrier | k.GroupBarrier | k.ClusterBarrier)


def array_lives(phase: k.Program) -> dict[str, Life]:
    """When the arrays of a program without grid loops are alive. An array that a loop declares on a GPU lives as long
    as the loop: no barrier need stand between its iterations. One that a block carries from turn to turn, or that other
    blocks send to, always lives.
    """
    touched: dict[str, set[int]] = {}
    last = _number(phase.body, 0, touched, phase.threads == 1, partial(is_barrier, warp=phase.warp))
    to_the_start = nx.DiGraph([(i + 1, i) for i in range(last)])
    to_the_start.add_node(last)
    to_the_start.add_edges_from((stretch, name) for name, stretches in touched.items() for stretch in stretches)
    dead = nx.immediate_dominators(to_the_start, last)
    always = {a.name for a in arrays(phase.body) if a.carried or a.received}
    return {name: Life(0, last) if name in always else Life(min(stretches), dead[name])
            for name, stretches in touched.items()}


def place_arrays(program: k.Program) -> k.Program:
    """The program with a place for each array of its blocks: shared arrays on a GPU; on a CPU arrays of one type, where
    that saves memory. Algorithm 4, but that what is free is found by offset: an array may take the memory of several.
    """
    space = k.Space.LOCAL if program.threads == 1 else k.Space.SHARED
    found = list(arrays(program.body, space))
    if not found or (space is k.Space.LOCAL and (len(found) < 2 or len({a.dtype.compute for a in found}) > 1)):
        return program
    lives = array_lives(program) if len(found) > 1 else {}
    placed: list[k.Array] = []
    for array in found:
        alive = [a for a in placed if _together(a, array, lives)]
        offset = first_fit(_padded(array), [(a.offset or 0, (a.offset or 0) + _padded(a)) for a in alive])
        placed.append(replace(array, offset=offset))
    if space is k.Space.LOCAL and placed_bytes(placed) == sum(map(_padded, found)):
        return program
    places = {a.name: a for a in placed}
    return replace(program, body=rewritten(program.body, lambda stmt: (
        places.get(stmt.name, stmt) if isinstance(stmt, k.Array) else stmt)))


def placed_bytes(found: Iterable[k.Array]) -> int:
    """Bytes of the memory that arrays with a place share."""
    return max((a.offset + _padded(a) for a in found if a.offset is not None), default=0)


def overlapping(phase: k.Program) -> list[tuple[str, str]]:
    """Arrays that share memory while both are alive; none in a right program."""
    found = [a for a in arrays(phase.body) if a.offset is not None]
    lives = array_lives(phase) if len(found) > 1 else {}
    return [(a.name, b.name) for i, b in enumerate(found) for a in found[:i]
            if a.space is b.space and _bytes_meet(a, b) and _together(a, b, lives)]


def _together(a: k.Array, b: k.Array, lives: Mapping[str, Life]) -> bool:
    """Whether both are alive at one time; an array that nothing uses never is."""
    return a.name in lives and b.name in lives and lives[a.name].overlaps(lives[b.name])


def _bytes_meet(a: k.Array, b: k.Array) -> bool:
    begin, other = a.offset or 0, b.offset or 0
    return begin < other + b.nbytes and other < begin + a.nbytes


def _padded(array: k.Array) -> int:
    unit = ALIGNMENT[array.space]
    return -(-array.nbytes // unit) * unit


def _number(body: Sequence[k.Stmt], at: int, touched: dict[str, set[int]], alone: bool,
            separates: Callable[[k.Stmt], bool]) -> int:
    """Numbers stretches from `at` on and notes in which ones arrays are touched; the last number.

    Args:
        alone: the block is one thread; each statement is a stretch.
    """
    for stmt in body:
        first, inner = at, list(statements([s for b in bodies(stmt) for s in b]))
        # A barrier in a loop that may run no iteration separates nothing.
        surely = not isinstance(stmt, k.For) or (stmt.limit is None and stmt.var.extent > 0)
        for side in bodies(stmt):
            at = _number(side, at, touched, alone, separates if surely else lambda _: False)
        own = {a.name for a in arrays(inner)} if alone else set[str]()
        for name in {name for s in (stmt, *inner) for name in arrays_touched(s)} - own:
            touched.setdefault(name, set()).update((first, at))
        at += alone or separates(stmt)
    return at
