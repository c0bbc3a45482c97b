"""Rows that a block takes in turn: each thread copies its part of the next row into shared memory, access by access,
as soon as it has read this row's there. So loads are under way while a row is reduced and written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, var
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.evaluate import Evaluator
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.schedule.phases import prefetched_values


@dataclass(frozen=True)
class Turns:
    """The rows of a block: numbers from `now` in steps of `step`, below `count`.

    Attributes:
        row: the row of a number.
        carried: the loop over them is the grid's.
    """

    now: Index
    step: int
    count: int
    row: Callable[[Index], Index]
    carried: bool = False


class RowPrefetch:
    """The copies of a block's rows.

    Args:
        chunk: the place in its row, in vectors, of an access.
    """

    def __init__(self, schedule: KernelSchedule, buffers: BufferTable, evaluator: Evaluator, turns: Turns,
                 chunk: Callable[[Index], Index]) -> None:
        self._mapping, self._cols, self._turns, self._chunk = schedule.mapping, schedule.domain.cols, turns, chunk
        self._pattern, self._evaluator, self._out = schedule.pattern, evaluator, evaluator.out
        self._thread = var(Var(k.THREAD, self._mapping.threads))
        copied = prefetched_values(schedule.pattern, [s.node for s in schedule.staged])
        self._arrays = {node: self._out.fresh("next") for node in copied}
        self._buffers = {node: buffers.reading(node) for node in copied}

    def begin(self, first: Index, wanted: k.Expr | None) -> None:
        """Arrays, and the copies of the row that no turn before has copied.

        Args:
            first: its number.
            wanted: whether this is the first turn; None: it is.
        """
        m = self._mapping
        notes = self._pattern.names(self._arrays)
        self._out.emit(k.Comment("the first row is copied; each row then copies the next", notes))
        for node, name in self._arrays.items():
            size = m.items * m.threads * m.vector
            self._out.emit(k.Array(name, node.type.dtype, size, k.Space.SHARED, carried=self._turns.carried,
                                   note=self._pattern.name(node)))
        item = Var("item", m.items)
        with self._out.when(wanted), self._out.loop(item, k.Loop.UNROLL):
            self._async_copy(self._turns.row(first), var(item), None)

    @contextmanager
    def access(self, inside: k.Expr | None, item: Index) -> Iterator[None]:
        """One access of this row, in the loop over them: waits for it; when it was read, copies the next row's."""
        self._out.emit(k.AwaitAsyncCopies((self._mapping.items - 1) * len(self._arrays)))
        with self._out.when(inside):
            yield
        self._evaluator.copied.clear()
        following, count = self._turns.now + self._turns.step, self._turns.count
        row = self._turns.row(self._out.clamped("following", following, count))
        self._async_copy(row, item, k.InRange(following, 0, count))

    def offer(self, item: Index, flat: Index) -> None:
        """Lets the element `flat` be read where it was copied, in the loop over the lanes of an access."""
        lane = self._evaluator.lane
        slot = self._slot(item) + (var(lane) if lane else 0)
        for node, name in self._arrays.items():
            self._evaluator.copied[node][flat] = (name, slot)

    def _slot(self, item: Index) -> Index:
        """Where this thread finds an access."""
        return (item * self._mapping.threads + self._thread) * self._mapping.vector

    def _async_copy(self, row: Index, item: Index, wanted: k.Expr | None) -> None:
        """Threads beyond the row copy nothing, or its end again where they read that (see RowPasses.columns)."""
        m = self._mapping
        chunk, chunks = self._chunk(item), self._cols // m.vector
        if not m.ends_with_row(self._cols):
            if m.row_blocks == 1:
                wanted = k.both(wanted, k.InRange(chunk, 0, chunks))
            chunk = self._out.clamped("place", chunk, chunks)
        for node, name in self._arrays.items():
            start = row * self._cols + chunk * m.vector
            self._out.emit(k.AsyncCopy(name, self._slot(item), self._buffers[node], start, m.vector, wanted))
