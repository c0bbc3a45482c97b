"""Loads that a launch makes while those that it depends on still run.

In a CUDA graph a kernel is started before the ones that it depends on have ended, and awaits them itself (programmatic
dependent launch). What none of them writes, weights above all, it can read before: by loads at the top of the program,
and by those of a loop's first iterations, which it keeps in registers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from tf_stitch.ir.symbolic_dims import SymbolicDim, surely_less
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.dependencies import awaits_itself
from tf_stitch.kernel_ir.index import Index, var
from tf_stitch.kernel_ir.walk import expanded, statements
from tf_stitch.lowering.load_units import Unit, load_of, needed, units, words
from tf_stitch.lowering.peeled_loop import LoopLoads

FEWEST_WORDS = 4
"""Registers of a thread that are worth another variant of a kernel: a vector."""


def loads_before_dependencies(program: k.Program, unwritten: Collection[str], room: int) -> k.Program:
    """The program with loads of some buffers before it awaits dependencies; the same one where there are none.

    Args:
        unwritten: buffers that no launch writes which the program's may depend on.
        room: 32-bit registers of a thread for what is loaded.
    """
    if program.threads == 1 or program.alone or program.cluster > 1 or awaits_itself(program) or not unwritten or (
            room < FEWEST_WORDS):
        return program
    front = _Front(program, frozenset(unwritten), room)
    rest = front.rest(program.body, _Front.straight)  # what is read at the end first: a loop takes all that is left
    rest = front.rest(rest, _Front.peeled)  # loops over terms before those over a row's few accesses
    rest = front.rest(rest, _Front.unrolled)
    if front.held < FEWEST_WORDS:
        return program
    declared = {s for s in front.statements if isinstance(s, k.LetIndex)}
    rest = expanded(rest, lambda stmt: () if stmt in declared else (stmt,))
    fence = k.LoadFence(tuple(front.names))
    return replace(program, body=(*front.statements, fence, k.AwaitDependencies(), *rest))


class _Front:
    """What goes before dependencies are awaited.

    Attributes:
        statements: indices and loads, in order.
        names: arrays and scalars that hold what was loaded.
        held: their registers.
    """

    def __init__(self, program: k.Program, unwritten: frozenset[str], room: int) -> None:
        self.statements: list[k.Stmt] = []
        self.names: list[str] = []
        self.held = 0
        self._room = room
        self._sizes = {b.name: b.size for b in program.buffers if b.name in unwritten}
        self._dtypes = {b.name: b.dtype for b in program.buffers}
        found = {s for s in statements(program.body) if isinstance(s, k.LetIndex)}
        meanings = Counter(s.var.name for s in found)
        self._clear = {s.var.name for s in found if meanings[s.var.name] == 1 and isinstance(s.source, Index)}
        self._known = {k.BLOCK, k.THREAD}
        self._indices: dict[str, k.LetIndex] = {}  # that can be computed before

    def rest(self, body: Sequence[k.Stmt], left: Callable[[_Front, Unit, bool], Sequence[k.Stmt]],
             guarded: bool = False) -> tuple[k.Stmt, ...]:
        """What is left of a body that runs once.

        Args:
            left: what is left of each unit.
            guarded: by a condition that a thread may not meet.
        """
        out: list[k.Stmt] = []
        for unit in units(body):
            stmt = unit[-1]
            if isinstance(stmt, k.If) and not stmt.orelse:
                inside = self.rest(stmt.body, left, guarded=True)
                out += (replace(stmt, body=inside),) if inside else ()
            else:
                out += left(self, unit, guarded)
        return tuple(out)

    def straight(self, unit: Unit, guarded: bool) -> Sequence[k.Stmt]:
        """A load goes to the front."""
        stmt = unit[-1]
        if isinstance(stmt, k.LoadFence):
            left = tuple(name for name in stmt.names if name not in self.names)
            return (k.LoadFence(left),) if left else ()
        if isinstance(stmt, k.LetIndex) and self._movable(stmt, self._indices, guarded):
            self._indices[stmt.var.name] = stmt
        if not self._early(unit, self._indices, guarded) or self.held + words(unit) > self._room:
            return unit
        self._declare(needed(unit))
        first = unit[0]
        assert isinstance(first, k.Let | k.Array)
        self._hold(first.name, words(unit), unit)
        return ()

    def _movable(self, stmt: k.LetIndex, indices: Mapping[str, k.LetIndex], guarded: bool) -> bool:
        """Whether an index can be computed before, where it stays inside its bounds."""
        return (stmt.var.name in self._clear and needed((stmt,)) <= self._known | indices.keys()
                and (stmt.limit is not None or not guarded))

    def _early(self, unit: Unit, indices: Mapping[str, k.LetIndex], guarded: bool) -> bool:
        """Whether it is a load that can be made before, and where nobody may have asked for it."""
        load = load_of(unit)
        if load is None or load[0] not in self._sizes or not needed(unit) <= self._known | indices.keys():
            return False
        buffer, index, width = load
        low, high = index.bounds
        return not guarded or (surely_less(-1, low) and surely_less(high + width - 1, self._sizes[buffer]))

    def _hold(self, name: str, registers: int, loading: Sequence[k.Stmt]) -> None:
        self.held += registers
        self.names.append(name)
        self.statements += loading

    def _declare(self, names: Collection[str]) -> None:
        """Declares indices before, with those that they need."""
        for name in sorted(set(names) - self._known):
            stmt = self._indices[name]
            self._declare(needed((stmt,)))
            if name not in self._known:
                self._known.add(name)
                self.statements.append(stmt)

    def peeled(self, unit: Unit, guarded: bool) -> Sequence[k.Stmt]:
        """The first iterations of a loop find what they would load."""
        return self._first_iterations(unit, guarded, k.Loop.SERIAL)

    def unrolled(self, unit: Unit, guarded: bool) -> Sequence[k.Stmt]:
        """The same for the first iterations of an unrolled loop."""
        return self._first_iterations(unit, guarded, k.Loop.UNROLL)

    def _first_iterations(self, unit: Unit, guarded: bool, kind: k.Loop) -> Sequence[k.Stmt]:
        loop = unit[-1]
        if not isinstance(loop, k.For) or loop.loop is not kind or loop.limit is not None or isinstance(
                loop.var.extent, SymbolicDim):
            return unit
        found = self._loads_of(loop, guarded)
        each = found.registers
        count = min((self._room - self.held) // each, loop.var.extent) if each else 0
        if not count:
            return unit
        self._declare(found.names_outside())
        for array in found.arrays(count):
            self._hold(array.name, array.nbytes // 4, (array,))
        self.statements.append(found.filling(count))
        return found.peeled(loop, count)

    def _loads_of(self, loop: k.For, guarded: bool) -> LoopLoads:
        """The loads of each iteration that can be made before, and the indices inside that they need."""
        inside = {loop.var.name: k.LetIndex(loop.var, var(loop.var), None)}
        early: list[Unit] = []

        def collect(body: Sequence[k.Stmt], guarded: bool) -> None:
            for unit in units(body):
                stmt = unit[-1]
                if isinstance(stmt, k.If) and not stmt.orelse:
                    collect(stmt.body, guarded=True)
                elif isinstance(stmt, k.LetIndex) and self._movable(stmt, self._indices | inside, guarded):
                    inside[stmt.var.name] = stmt
                elif self._early(unit, self._indices | inside, guarded):
                    early.append(unit)

        collect(loop.body, guarded)
        wanted = set(chain.from_iterable(map(needed, early)))
        indices: list[k.LetIndex] = []
        for name, stmt in reversed(inside.items()):
            if name in wanted and name != loop.var.name:
                indices.append(stmt)
                wanted |= needed((stmt,))
        return LoopLoads(loop.var, early, indices[::-1], self._dtypes)
