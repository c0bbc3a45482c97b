"""Rows that a block takes in turn: each thread fetches its part of the next row into shared memory, access by access,
as soon as it has read this row's there. So loads are under way while a row is reduced and written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tf_stitch.ir.sizes import divides
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, var
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.evaluate import Evaluator
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.schedule.phases import fetched_values


class ReadAhead:
    """The fetches of rows that lie in memory one behind the other.

    Args:
        step: the loop over the rows of a block.
    """

    def __init__(self, schedule: KernelSchedule, buffers: BufferTable, evaluator: Evaluator, step: Var) -> None:
        self._mapping, self._cols, self._step = schedule.mapping, schedule.domain.cols, step
        self._evaluator, self._out = evaluator, evaluator.out
        self._thread = var(Var(k.THREAD, self._mapping.threads))
        fetched = fetched_values(schedule.pattern, [s.node for s in schedule.staged])
        self._arrays = {node: self._out.fresh("next") for node in fetched}
        self._buffers = {node: buffers.reading(node) for node in fetched}

    def begin(self) -> None:
        """Before the loop: arrays, and the first row's fetches."""
        m = self._mapping
        for node, name in self._arrays.items():
            self._out.emit(k.Array(name, node.type.dtype, m.items * m.threads * m.vector, k.Space.SHARED))
        item = Var("item", m.items)
        with self._out.loop(item, k.Loop.UNROLL):
            self._fetch(self._row(Index()), var(item), None)

    @contextmanager
    def access(self, inside: k.Expr | None, item: Index) -> Iterator[None]:
        """One access of this row, in the loop over them: waits for it; when it was read, fetches the next row's."""
        self._out.emit(k.AwaitFetches((self._mapping.items - 1) * len(self._arrays)))
        with self._out.when(inside):
            yield
        self._evaluator.fetched.clear()
        following, rows = var(self._step) + 1, self._mapping.rows_per_block
        row = self._row(self._out.clamped("following", following, rows))
        self._fetch(row, item, k.InRange(following, 0, rows))

    def offer(self, item: Index, flat: Index) -> None:
        """Lets the element `flat` be read where it was fetched, in the loop over the lanes of an access."""
        lane = self._evaluator.lane
        slot = self._slot(item) + (var(lane) if lane else 0)
        for node, name in self._arrays.items():
            self._evaluator.fetched[node] = (name, slot, flat)

    def _row(self, step: Index) -> Index:
        return var(Var(k.BLOCK, self._mapping.grid)) * self._mapping.rows_per_block + step

    def _slot(self, item: Index) -> Index:
        """Where this thread finds an access."""
        return (item * self._mapping.threads + self._thread) * self._mapping.vector

    def _fetch(self, row: Index, item: Index, wanted: k.Expr | None) -> None:
        m = self._mapping
        chunk, chunks = item * m.threads + self._thread, self._cols // m.vector
        if not divides(m.threads, chunks):
            wanted = k.both(wanted, k.InRange(chunk, 0, chunks))
            chunk = self._out.clamped("place", chunk, chunks)
        for node, name in self._arrays.items():
            start = row * self._cols + chunk * m.vector
            self._out.emit(k.Fetch(name, self._slot(item), self._buffers[node], start, m.vector, wanted))
