"""Lowers column reductions: the last axis is kept, so neighbouring threads own neighbouring columns.

A block owns a tile of columns (`vector` of each of `row_threads` threads); its other threads take every n-th row
and combine their sums in shared memory. Element-level outputs of the same pass are written along the way, and
column-level consumers of the result follow in the same kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tf_stitch.families.column.before import ShortReductionsBefore
from tf_stitch.families.column.propose import column_outputs, rows_before_stores, sums_of_columns
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ReduceAttrs
from tf_stitch.ir.reductions import initial
from tf_stitch.ir.symbolic_dims import SymbolicDim, ceil_div, divides
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, delinearize, linearize, var
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.evaluate import Evaluator, MultiIndex
from tf_stitch.lowering.kernel import LoweredKernel, finish
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.lowering.stores import ElementStores
from tf_stitch.schedule.kernel_schedule import KernelSchedule

FEWEST_ROWS = 4
"""Partial results of a column that are left when every thread of the block has combined some: fewer than that are not
worth the barrier."""


def lower_column(schedule: KernelSchedule) -> LoweredKernel:
    """The kernel of a column schedule. domain.rows counts kept elements, domain.cols reduced ones.

    Raises:
        ScheduleError: the pattern does not fit: reductions in sequence, or outputs of other sizes.
    """
    return _ColumnLowering(schedule).run()


class _ColumnLowering:
    def __init__(self, schedule: KernelSchedule) -> None:
        self.schedule, self.mapping = schedule, schedule.mapping
        self.kept, self.length = schedule.domain.rows, schedule.domain.cols
        self.buffers = BufferTable(schedule.pattern)
        self.out = ScopedEmitter(self.buffers.size)
        self.evaluator = Evaluator(schedule, self.buffers, self.out)
        self.reductions = sums_of_columns(schedule.pattern, self.mapping.threads > 1)
        self.inner = schedule.dominant.operands[0].type.dims[-1]
        self.lane = Var("lane", self.mapping.vector)
        self._vector = self.lane if self.mapping.threads > 1 and self.lane.extent > 1 else None
        self.group_rows = self.mapping.threads // self.mapping.row_threads

    def run(self) -> LoweredKernel:
        m, out = self.mapping, self.out
        elements, columns = column_outputs(self.schedule.pattern, self.reductions, self.kept, self.length)
        tiles = ceil_div(self.inner, m.row_threads * m.vector)
        block, thread = var(Var(k.BLOCK, m.grid)), var(Var(k.THREAD, m.threads))
        outer, tile = block // tiles, block % tiles
        across, down = thread % m.row_threads, thread // m.row_threads
        chunk = tile * m.row_threads + across
        limit, inside = self._edges(chunk * m.vector, tiles)
        ShortReductionsBefore(self.schedule, self.evaluator, self.out).emit(self.reductions)
        sums = {n: out.fresh("acc") for n in self.reductions}
        out.emit(k.Comment("each thread reduces some rows", self.schedule.pattern.names(self.reductions)))
        for node, name in sums.items():
            out.emit(k.Array(name, node.type.dtype.compute, m.vector, init=initial(node),
                             note=self.schedule.pattern.name(node)))
        with out.when(inside):
            self._go_over_rows(sums, elements, down, (outer, self._column(chunk, inside)), limit)
        if self.group_rows > 1:
            self._combine_parts(sums, across, down)
        owner = None if self.group_rows == 1 else k.InRange(down, 0, 1)
        out.emit(k.Comment("results of the columns", self.schedule.pattern.names(columns)))
        with out.when(owner), out.when(inside):
            self._results(sums, columns, (outer, self._column(chunk, inside)), limit)
        return finish(self.schedule, out, self.buffers)

    def _go_over_rows(self, sums: dict[Node, str], elements: list[Node], down: Index, place: tuple[Index, Index],
                      limit: Index | None) -> None:
        out, size = self.out, self.group_rows
        begun = 0
        rows = rows_before_stores(self.schedule) if elements and self.mapping.threads > 1 else 1
        if rows > 1:
            turn = Var("turn", self.length // size // rows)
            begun = turn.extent * rows
            with out.loop(turn, k.Loop.SERIAL, together=1):
                first = var(turn) * (rows * size) + down
                self._accumulate(sums, elements, [first + i * size for i in range(rows)], place, limit)
        step = Var("step", ceil_div(self.length, size) - begun)
        if step.extent == 0:
            return
        row = (var(step) + begun) * size + down
        short = None if divides(size, self.length) else k.InRange(row, 0, self.length)
        with out.loop(step, k.Loop.SERIAL, together=self.schedule.together or k.TOGETHER), out.when(short):
            here = row if short is None else out.clamped("row", row, self.length)
            self._accumulate(sums, elements, [here], place, limit)

    def _column(self, chunk: Index, inside: k.Expr | None) -> Index:
        """Last index of the kept element of this thread and lane."""
        if inside is not None:
            chunk = self.out.clamped("chunk", chunk, self.inner // self.mapping.vector)
        return chunk * self.mapping.vector + var(self.lane)

    def _kept(self, outer: Index, column: Index, limit: Index | None) -> Index:
        """Flat index of the kept element, inside the loop over lanes."""
        if limit is not None and isinstance(self.inner, SymbolicDim):  # divisions cancel only if the bound is known
            column = self.out.below("col", column, self.inner)
        return outer * self.inner + column

    def _edges(self, first: Index, tiles: int) -> tuple[Index | None, k.Expr | None]:
        """CPU: the lane limit of a last, narrower tile; GPU: the condition that the thread has columns."""
        m = self.mapping
        if tiles * m.row_threads * m.vector == self.inner:
            return None, None
        if m.threads == 1:
            return first * -1 + self.inner, None
        return None, k.InRange(first, 0, self.inner)

    def _lanes(self) -> k.Loop:
        return k.Loop.SIMD if self.mapping.threads == 1 else k.Loop.UNROLL

    def _accumulate(self, sums: dict[Node, str], elements: list[Node], rows: Sequence[Index],
                    place: tuple[Index, Index], limit: Index | None) -> None:
        with self._elements(elements, place, limit, len(rows)) as (kept, store):
            for row in rows:
                for node, name in sums.items():
                    value = self.evaluator.value(node.operands[0], self._operand_index(node, row, kept))
                    self.out.emit(k.SetElement(name, var(self.lane), value, node.kind))
                store(linearize(self._operand_index(self.schedule.dominant, row, kept),
                                self.schedule.dominant.operands[0].type.dims))

    def _results(self, sums: dict[Node, str], columns: list[Node], place: tuple[Index, Index], limit: Index | None
                 ) -> None:
        """Every load comes before the first store: variables may be updated in place, and no load waits for a store."""
        with self._elements(columns, place, limit) as (kept, store):
            for node, name in sums.items():
                self.evaluator.reduced[node] = (
                    self.out.let(k.Element(name, var(self.lane), node.type.dtype.compute)), kept)
            for node in columns:
                self.evaluator.value(node, delinearize(kept, node.type.dims))
            store(kept)

    @contextmanager
    def _elements(self, nodes: list[Node], place: tuple[Index, Index], limit: Index | None, rows: int = 1
                  ) -> Iterator[tuple[Index, Callable[[Index], None]]]:
        """A loop over the elements of an access, or of one in each of some rows: the column, and what stores the values
        of `nodes` at an index, in each row once."""
        stores = ElementStores(self.evaluator)
        outputs = [(n, self.buffers.writing(n)) for n in nodes]
        arrays = iter([stores.declare(outputs, self._vector) for _ in range(rows)])

        def store(at: Index) -> None:
            mine = next(arrays)
            for node, buffer in outputs:
                stores.store(node, buffer, at, self._vector, mine)

        with self.out.loop(self.lane, self._lanes(), limit):
            kept = self._kept(*place, limit)
            self.evaluator.lane = self._vector
            yield kept, store
            self.evaluator.lane = None
        stores.flush()

    def _combine_parts(self, sums: dict[Node, str], across: Index, down: Index) -> None:
        """Partial results of the block's row groups are combined, in order, by the first group: a few at a time, since
        compilers load all that an unrolled loop reads before they add it up (248 registers for two sums)."""
        m, out = self.mapping, self.out
        width = m.row_threads * m.vector
        column = across * m.vector + var(self.lane)
        shared = {n: out.fresh("partial") for n in sums}
        out.emit(k.Comment("threads that share columns combine what they have"))
        for node, name in sums.items():
            out.emit(k.Array(shared[node], node.type.dtype.compute, self.group_rows * width, k.Space.SHARED))
            with out.loop(self.lane, k.Loop.UNROLL):
                out.emit(k.SetElement(shared[node], down * width + column,
                                      k.Element(name, var(self.lane), node.type.dtype.compute)))
        out.emit(k.Barrier())
        rows = self._combine_in_threads(shared, width)
        other = Var("other", rows - 1)
        with out.when(k.InRange(down, 0, 1)):
            if rows < self.group_rows:
                with out.loop(self.lane, k.Loop.UNROLL):
                    for node, name in sums.items():
                        first = k.Element(shared[node], column, node.type.dtype.compute)
                        out.emit(k.SetElement(name, var(self.lane), first))
            with out.loop(other, k.Loop.SERIAL), out.loop(self.lane, k.Loop.UNROLL):
                for node, name in sums.items():
                    partial = k.Element(shared[node], (var(other) + 1) * width + column, node.type.dtype.compute)
                    out.emit(k.SetElement(name, var(self.lane), partial, node.kind))

    def _combine_in_threads(self, shared: dict[Node, str], width: int) -> int:
        """With many groups, each thread of the block first combines a few partial results of one column, all of
        which lie as many threads apart. How many are left of each column."""
        threads, out = self.mapping.threads, self.out
        rows = threads // width
        if rows < FEWEST_ROWS or threads % width:
            return self.group_rows
        thread, other = var(Var(k.THREAD, threads)), Var("other", self.mapping.vector - 1)
        for node, name in shared.items():
            with out.loop(other, k.Loop.UNROLL):
                partial = k.Element(name, thread + (var(other) + 1) * threads, node.type.dtype.compute)
                out.emit(k.SetElement(name, thread, partial, node.kind))
        out.emit(k.Barrier())
        return rows

    def _operand_index(self, node: Node, row: Index, kept: Index) -> MultiIndex:
        assert isinstance(node.attrs, ReduceAttrs)
        dims, axes = node.operands[0].type.dims, node.attrs.axes
        keep = iter(delinearize(kept, [d for i, d in enumerate(dims) if i not in axes]))
        reduced = iter(delinearize(row, [d for i, d in enumerate(dims) if i in axes]))
        return tuple(next(reduced) if i in axes else next(keep) for i in range(len(dims)))
