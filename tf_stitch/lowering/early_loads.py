"""Loads as early as they can be made. A kernel too small for its blocks to hide what others wait for takes as long as
its trips to memory that follow each other, half a microsecond each on an H200. So a thread asks at once for all that
it will read: before a reduction's loop and barrier, before arithmetic that a compiler makes branches of, before what
it stores, and outside of guards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from tf_stitch.ir.symbolic_dims import surely_less
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.cost import buffer_bytes
from tf_stitch.kernel_ir.index import Index
from tf_stitch.kernel_ir.walk import statements
from tf_stitch.lowering.load_units import Unit, load_of, needed, units, words

MOST_HELD = 32
"""Registers (32 bits) for what is loaded before a loop, a branch or a barrier and used behind it."""

MOST_PINNED = 128
"""Registers for what is loaded first of all, of the 255 that a thread has at most."""


def early_loads(program: k.Program, early_bytes: int) -> k.Program:
    """The program with its loads made earlier, if it moves fewer bytes than these and is a GPU's. Only inputs move:
    what a kernel writes and reads again (scratch) stays where it is."""
    if program.threads == 1 or not surely_less(buffer_bytes(program), early_bytes):
        return program
    return replace(program, body=tuple(_held(_Moves(program).body(program.body))))


class _Moves:
    def __init__(self, program: k.Program) -> None:
        self._sizes = {b.name: b.size for b in program.buffers if b.mode is k.Mode.READ}
        self._room = MOST_HELD
        indices = Counter(s.var.name for s in {s for s in statements(program.body) if isinstance(s, k.LetIndex)})
        self._ambiguous = {name for name, meanings in indices.items() if meanings > 1}

    def body(self, body: Sequence[k.Stmt]) -> Unit:
        """A body from which nothing leaves."""
        out = _Placed()
        for unit in units(body):
            stmt = unit[-1]
            if isinstance(stmt, k.If):
                unit = (replace(stmt, body=self._unguarded(stmt.body, out), orelse=self._unguarded(stmt.orelse, out)),)
            elif isinstance(stmt, k.For):
                unit = (replace(stmt, body=self.body(stmt.body)),)
            self._put(unit, out)
        return tuple(chain.from_iterable(out.units))

    def _unguarded(self, body: Sequence[k.Stmt], out: _Placed) -> Unit:
        """What is left of a guarded body when the loads that do no harm unguarded were put in front."""
        inside = list(units(self.body(body)))
        leaving: list[Unit] = []
        staying: list[Unit] = []
        declared = set[str]()  # inside, for good
        for unit in inside:
            stmt = unit[-1]
            free = needed(unit).isdisjoint(declared)
            if isinstance(stmt, k.LetIndex):  # one without a limit is inside only where the guard says so
                leaves = free and stmt.limit is not None and self._moves(unit)
            else:
                leaves = free and self._harmless(unit)
            if isinstance(stmt, k.LetIndex) and not leaves:
                declared.add(stmt.var.name)
            (leaving if leaves else staying).append(unit)
        if all(load_of(unit) is None for unit in leaving):
            return tuple(chain.from_iterable(inside))
        for unit in leaving:
            self._put(unit, out)
        return tuple(chain.from_iterable(staying))

    def _put(self, unit: Unit, out: _Placed) -> None:
        """Adds a unit to those before it; a load, and an index that loads may need, as early as may be."""
        if isinstance(unit[-1], k.LetIndex) and unit[-1] in out.indices:
            return
        out.insert(self._earliest(unit, out) if self._moves(unit) else len(out.units), unit)

    def _earliest(self, unit: Unit, out: _Placed) -> int:
        """Behind what it needs, and behind the loads that are there already."""
        at, held = out.behind(needed(unit)), words(unit)
        if held and out.last_wait >= at:
            if held > self._room:
                at = out.last_wait + 1
            else:
                self._room -= held
        return out.behind_loads(at)

    def _moves(self, unit: Unit) -> bool:
        stmt = unit[-1]
        if isinstance(stmt, k.LetIndex):
            return isinstance(stmt.source, Index) and stmt.var.name not in self._ambiguous
        load = load_of(unit)
        return load is not None and load[0] in self._sizes

    def _harmless(self, unit: Unit) -> bool:
        """Whether a load may be made where nobody asked for it."""
        load = load_of(unit)
        if load is None or load[0] not in self._sizes:
            return False
        buffer, index, width = load
        low, high = index.bounds
        return surely_less(-1, low) and surely_less(high + width - 1, self._sizes[buffer])


class _Placed:
    """Units in their order. What is asked for the place of another is kept beside them: there are thousands in a long
    body, and most are loads.

    Attributes:
        indices: those that are declared.
        last_wait: the place of the last unit that `_waits`; -1 without one.
    """

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self.indices = set[k.Stmt]()
        self.last_wait = -1
        self._names: list[str] = []  # of the index that a unit declares, or ""
        self._loads = bytearray()  # whether a unit is one

    def insert(self, at: int, unit: Unit) -> None:
        stmt = unit[-1]
        if isinstance(stmt, k.LetIndex):
            self.indices.add(stmt)
        self.units.insert(at, unit)
        self._names.insert(at, stmt.var.name if isinstance(stmt, k.LetIndex) else "")
        self._loads.insert(at, load_of(unit) is not None)
        self.last_wait += at <= self.last_wait
        if _waits(stmt):
            self.last_wait = max(self.last_wait, at)

    def behind(self, names: Iterable[str]) -> int:
        """The first place behind the indices of these names."""
        backwards = self._names[::-1]
        return max((len(backwards) - backwards.index(name) for name in names if name in backwards), default=0)

    def behind_loads(self, at: int) -> int:
        """The first place from `at` on that is not before a load."""
        found = self._loads.find(0, at)
        return len(self.units) if found < 0 else found


def _held(body: Sequence[k.Stmt]) -> Iterator[k.Stmt]:
    """A body whose loads stay where they are: compilers would put one where its value is needed."""
    room, run = MOST_PINNED, list[str]()
    for unit in units(body):
        first = unit[0]
        if load_of(unit) is not None and isinstance(first, k.Let | k.Array):
            room -= words(unit)
            if room >= 0:
                run.append(first.name)
        elif run:
            yield k.LoadFence(tuple(run))
            run = []
        yield from unit


def _waits(stmt: k.Stmt) -> bool:
    """Whether what is loaded before a statement and used behind it has to be kept meanwhile."""
    if isinstance(stmt, k.For):
        return stmt.loop is not k.Loop.UNROLL
    return isinstance(stmt, k.If | k.AllReduce | k.ArgAllReduce | k.Barrier | k.GroupBarrier | k.ClusterBarrier)
