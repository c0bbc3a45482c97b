"""Passes over a row: the accesses that a thread makes, and where their values stay between the phases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, constant, var
from tf_stitch.lowering.evaluate import Evaluator
from tf_stitch.lowering.prefetch import RowPrefetch
from tf_stitch.schedule.kernel_schedule import KernelSchedule, ThreadMapping

BANKS_ELEMENTS = 4
"""Of 32 bits that a thread accesses together in memory of the block: what a warp's quarter accesses lies side by side,
in banks of its own."""


@dataclass
class Accesses:
    """Neighbouring accesses that one loop makes.

    Attributes:
        item: the loop over them.
        first: how many come before.
        loop: unrolled, they keep values in registers.
        arrays: where each staged value is.
        filled: those that were computed already.
    """

    item: Var
    first: int
    loop: k.Loop
    arrays: dict[Node, str] = field(default_factory=dict)
    filled: set[Node] = field(default_factory=set)

    @property
    def alone(self) -> bool:
        """Whether it is one access, apart from those before it."""
        return self.first > 0 and self.item.extent == 1

    def slot(self, item: Index, start: Index, lane: Index, thread: Index, mapping: ThreadMapping) -> Index:
        """Where lane `lane` of access `item`, at column `start`, is staged: in an array of the thread, of this block's
        part of the row, or of the row."""
        if self.loop is k.Loop.UNROLL:
            return item * mapping.vector + lane
        if mapping.row_blocks > 1 or self.first:
            width = min(mapping.vector, BANKS_ELEMENTS)
            part = item * (mapping.vector // width) + lane // width
            return (part * mapping.threads + thread) * width + lane % width
        return start + lane


class RowPasses:
    """Passes of this block's threads over a row, or over its part of one.

    Attributes:
        loops: what a pass is made of.
        at: the loop that is open, or was last.
        lane: the loop over the elements of an access; None: an access is one.
        part: which of the row's blocks this is.
        inside: inside a loop, whether the access is of the row; None: it is, or nothing is done where it is not.
    """

    def __init__(self, schedule: KernelSchedule, evaluator: Evaluator) -> None:
        self._mapping, self._cols = schedule.mapping, schedule.domain.cols
        self._out, self._evaluator = evaluator.out, evaluator
        self._together = schedule.together or k.TOGETHER
        m = self._mapping
        self.loops = _accesses(m, self._cols, apart=schedule.together > 0)
        self.at = self.loops[0]
        self.lane = Var("lane", m.vector) if m.vector > 1 else None
        self.part = var(Var(k.BLOCK, m.grid)) % m.row_blocks
        self.inside: k.Expr | None = None
        self._thread = var(Var(k.THREAD, m.threads))

    @contextmanager
    def columns(self, accesses: Accesses, ahead: RowPrefetch | None = None, again: bool = False
                ) -> Iterator[tuple[Index, Index]]:
        """A loop over accesses of the row: this thread's first column of an access, and the number of the access. In
        rows that blocks share, threads beyond the row read its end again, so that no branch keeps loads from being
        under way together; `inside` guards what they may not do. (In other rows that cost registers: softmax 4096x32000
        on an H200 took 303 us without branches, 258 with them.)

        Args:
            ahead: the row was fetched, and the next one is here.
            again: it is not the first pass: what rows need more than once is on the chip.
        """
        m, item = self._mapping, var(accesses.item)
        self.at = accesses
        chunk = self.chunk(item + accesses.first)
        chunks = self._cols // m.vector
        last = accesses is self.loops[-1]  # in the loops before every access is the row's
        inside = k.InRange(chunk, 0, chunks) if last and not m.ends_with_row(self._cols) else None
        branches = m.row_blocks == 1 or (again and accesses.alone)
        self.inside = None if branches or inside is None else self._but_the_last(inside)
        guard = inside if branches else None
        around = self._out.when(guard) if ahead is None else ahead.access(guard, item)
        # Registers that keep other values are few, and memory of the block answers at once. Cross-entropy 4096x50264 in
        # bfloat16 took 326 us on an H200 so, 332 with two accesses together.
        together = 1 if again and m.beyond else self._together
        with self._out.loop(accesses.item, accesses.loop, together=together), around:
            yield (chunk if inside is None else self._out.clamped("chunk", chunk, chunks)) * m.vector, item
        self.inside = None

    def _but_the_last(self, inside: k.Expr) -> k.Expr:
        """Of accesses that are unrolled, only the last one has to ask whether it is the row's."""
        item = self.at.item
        if self.at.loop is not k.Loop.UNROLL or item.extent == 1:
            return inside
        return k.Apply(OpKind.OR, (k.InRange(var(item), 0, item.extent - 1), inside), DType.BOOL)

    def chunk(self, item: Index) -> Index:
        """The place in the row of this thread's access number `item`, in vectors."""
        m = self._mapping
        return (item * m.row_blocks + self.part) * m.row_threads + self._thread % m.row_threads

    @contextmanager
    def lanes(self, at: tuple[Index, Index]) -> Iterator[tuple[Index, Index]]:
        """The lanes of an access: the column, and its place in this thread's arrays."""
        start, item = at
        lane = var(self.lane) if self.lane else constant(0)
        slot = self.at.slot(item, start, lane, self._thread, self._mapping)
        with self._out.loop(self.lane or Var("lane", 1), k.Loop.UNROLL):
            self._evaluator.lane = self.lane
            yield start + lane, slot
            self._evaluator.lane = None


def _accesses(mapping: ThreadMapping, cols: int, apart: bool) -> list[Accesses]:
    """The loops of a pass over a row of `cols` elements. The access where the row ends is apart from those before it,
    which need not ask where they are.

    Args:
        apart: it is so where a loop keeps nothing, too: behind a branch each load would wait for the one before.
    """
    if not mapping.items:
        whole, loop = cols // mapping.per_pass, k.Loop.SIMD if mapping.threads == 1 else k.Loop.SERIAL
        if apart and whole and not mapping.ends_with_row(cols):
            return [Accesses(Var("item", whole), 0, loop), Accesses(Var("last", 1), whole, loop)]
        return [Accesses(Var("item", ceil_div(cols, mapping.per_pass)), 0, loop)]
    found = [Accesses(Var("item", mapping.items), 0, k.Loop.UNROLL)]
    if mapping.beyond:
        before = mapping.items + mapping.beyond - 1
        apart = not mapping.ends_with_row(cols) and before * mapping.per_pass <= cols
        found.append(Accesses(Var("beyond", mapping.beyond - apart), mapping.items, k.Loop.SERIAL))
        if apart:
            found.append(Accesses(Var("last", 1), before, k.Loop.SERIAL))
    return found
