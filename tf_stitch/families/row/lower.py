"""Lowers row reductions with everything element-wise around them: softmax, layer normalisation, losses.

A row is shared by `row_threads` threads; each phase passes over the row once. Values needed in later phases stay
in registers (or in an array, where the row is too long), so that memory is read once (AStitch section 3.2).
"""

from __future__ import annotations

import itertools
from contextlib import nullcontext

from tf_stitch.families.row.cross_block_reduction import CrossBlockReduction, OwnMaximum
from tf_stitch.families.row.passes import Accesses, RowPasses
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ArgReduceAttrs, ReduceAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.reductions import ARG_KINDS, initial
from tf_stitch.ir.symbolic_dims import divides
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, delinearize, linearize, var
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.evaluate import Evaluator, MultiIndex
from tf_stitch.lowering.groups import in_clusters, in_groups
from tf_stitch.lowering.kernel import LoweredKernel, finish
from tf_stitch.lowering.prefetch import RowPrefetch, Turns
from tf_stitch.lowering.reduce import accumulator
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.lowering.stores import ElementStores, first_of, store_row_values
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.schedule.phases import Phase, exponentials, row_outputs, split_phases
from tf_stitch.schedule.two_accumulators import phases_with_two_accumulators, prefetched_rows


def lower_row(schedule: KernelSchedule) -> LoweredKernel:
    """The kernel of a row schedule.

    Raises:
        ScheduleError: the pattern is not local to rows.
    """
    return RowLowering(schedule).run()


class RowLowering:
    """One row at a time; `column_sums` are arrays that elements are also added to (mixed reductions)."""

    def __init__(self, schedule: KernelSchedule) -> None:
        self.schedule = schedule
        self.mapping, self.domain = schedule.mapping, schedule.domain
        self.buffers = BufferTable(schedule.pattern)
        self.out = ScopedEmitter(self.buffers.size)
        self.evaluator = Evaluator(schedule, self.buffers, self.out)
        self.stores = ElementStores(self.evaluator)
        self.elements = self.domain.rows * self.domain.cols
        self.row_outputs: list[Node] = []
        self.passes = RowPasses(schedule, self.evaluator)
        self.column_sums: dict[Node, str] = {}
        self.own: OwnMaximum | None = None  # of those who combine parts, while it stands for the row's
        self.ahead: RowPrefetch | None = None  # rows of a block that follow each other may be prefetched

    def run(self) -> LoweredKernel:
        phases = split_phases(self.schedule.pattern, self.elements)
        self.row_outputs = row_outputs(self.schedule.pattern, phases, self.domain.rows)
        if self.schedule.ahead:
            self._prefetch_rows()
        with self.out.loop(Var("wave", self.mapping.waves), k.Loop.UNROLL):
            row, valid = self._row()
            self.rows(phases, row, valid)
        kernel = finish(self.schedule, self.out, self.buffers)
        if self.mapping.row_blocks == 1:
            return kernel
        return in_clusters(kernel) if self.mapping.cluster else in_groups(kernel)

    def _prefetch_rows(self) -> None:
        """Parts of rows that blocks share in turn: the next turn's is on its way."""
        m, launched = self.mapping, self.schedule.launched
        block = var(Var(k.BLOCK, m.grid))
        turns = Turns(block, launched, m.grid, lambda number: number // m.row_blocks, carried=True)
        self.ahead = RowPrefetch(self.schedule, self.buffers, self.evaluator, turns, self.passes.chunk)
        self.ahead.begin(block, k.InRange(block, 0, launched))

    def rows(self, phases: list[Phase], row: Index, valid: k.Expr | None) -> None:
        """Everything about one row."""
        blocks = CrossBlockReduction(self.schedule, self.out, self.buffers, row, self.passes.part)
        for accesses, staged in itertools.product(self.passes.loops, self.schedule.staged):
            if staged.instead_of is None:
                accesses.arrays[staged.node] = self._declare(staged.node, accesses)
            else:
                accesses.arrays[staged.node] = accesses.arrays[staged.instead_of]
        doubled = phases_with_two_accumulators(self.schedule, phases)
        for number, phase in enumerate(phases):
            what = f"phase {number + 1} of {len(phases)}, {phase.purpose}"
            self.out.emit(k.Comment(what, self.schedule.pattern.names(phase.results)))
            if phase in doubled:
                self._with_two_accumulators(phase, row)
                if phase is phases[0]:
                    self._prefetch_row(row)
                continue
            self._phase(phase, row, valid, blocks, phase is phases[0])
        if not self.row_outputs:
            return
        self.out.emit(k.Comment("results of the row", self.schedule.pattern.names(self.row_outputs)))
        thread = var(Var(k.THREAD, self.mapping.threads)) % self.mapping.row_threads
        thread += self.passes.part * self.mapping.threads
        with self.out.when(k.both(first_of(thread), valid)):
            for node in self.row_outputs:
                store_row_values(self.evaluator, node, self.writing(node), row, self.domain.rows)

    def writing(self, node: Node) -> str:
        """The buffer of an output."""
        return self.buffers.writing(node)

    def _row(self) -> tuple[Index, k.Expr | None]:
        """This thread's row, and the condition that it exists (None: always)."""
        m = self.mapping
        block = var(Var(k.BLOCK, m.grid))
        if m.rows_per_block == 1:
            return block // m.row_blocks, None
        wave = var(Var("wave", m.waves)) * (m.rows_per_block // m.waves)
        raw = block * m.rows_per_block + wave + var(Var(k.THREAD, m.threads)) // m.row_threads
        if divides(m.rows_per_block, self.domain.rows):
            return raw, None
        return self.out.clamped("row", raw, self.domain.rows), k.InRange(raw, 0, self.domain.rows)

    def _declare(self, node: Node, accesses: Accesses) -> str:
        """The array that keeps a value of these accesses."""
        name, space = self.out.fresh("staged"), k.Space.LOCAL
        m, note = self.mapping, self.schedule.pattern.name(node)
        size = accesses.item.extent * m.vector
        if accesses.loop is not k.Loop.UNROLL:
            space = k.Space.SHARED if m.threads > 1 else k.Space.LOCAL
            size = size * m.threads if m.beyond else self.schedule.row_room or self.domain.cols
        self.out.emit(k.Array(name, node.type.dtype.compute, size, space, note=note))
        return name

    def _accumulators(self, phase: Phase) -> dict[Node, str]:
        names = {node: self.out.fresh("acc") for node in phase.reductions}
        for node, name in names.items():
            for stmt in accumulator(node, name, self.schedule.pattern.name(node)):
                self.out.emit(stmt)
        return names

    def _with_two_accumulators(self, phase: Phase, row: Index) -> None:
        """A pass of sums alone, over both halves of the row at once (see schedule.two_accumulators)."""
        names = self._accumulators(phase)
        half = self.domain.cols // 2
        item = Var("item", half)
        with self.out.loop(item, k.Loop.SIMD):
            for node, name in names.items():
                one, other = (self.evaluator.value(node.operands[0], self._operand_index(node, row, var(item) + start))
                              for start in (0, half))
                self.out.emit(k.Update(name, node.kind, k.Apply(OpKind.ADD, (one, other), one.dtype)))
        for node, name in names.items():
            self._combine(node, name, row)

    def _prefetch_row(self, row: Index) -> None:
        """Of what the last loop has read in the order of memory."""
        loop, cols = self.out.statements[-1], self.domain.cols
        assert isinstance(loop, k.For)
        loads = [s.value for s in loop.body if isinstance(s, k.Let) and isinstance(s.value, k.Load)]
        for load in loads:
            if load.index == row * cols + var(loop.var):
                ahead = (row + prefetched_rows(cols, self.buffers.dtype(load.buffer))) * cols
                self.out.emit(k.Prefetch(load.buffer, ahead, cols))

    def _phase(self, phase: Phase, row: Index, valid: k.Expr | None, blocks: CrossBlockReduction, first: bool) -> None:
        names = self._accumulators(phase)
        outputs = [(node, self.buffers.writing(node)) for node in phase.outputs]
        relative = self.schedule.relative
        own = relative is not None and relative[1] in phase.reductions  # exponentials relative to the maximum of a part
        with self.out.forgetting() if own else nullcontext():
            for accesses in self.passes.loops:
                self._pass(accesses, phase, names, outputs, row, valid, first)
        together = tuple((name, node.kind) for node, name in names.items() if node.kind not in ARG_KINDS)
        if together and blocks.width > 1:
            self.out.emit(k.AllReduce(together, blocks.width))
        if together and self.mapping.row_blocks > 1:
            self._combine_parts(names, blocks)
        for node, name in names.items():
            self._combine(node, name, row)
        for (node, flat), place in self.evaluator.later.items():
            self.evaluator.staged[node][flat] = place
        self.evaluator.later.clear()

    def _pass(self, accesses: Accesses, phase: Phase, names: dict[Node, str], outputs: list[tuple[Node, str]],
              row: Index, valid: k.Expr | None, first: bool) -> None:
        ahead = self.ahead if first else None
        with self.passes.columns(accesses, ahead, again=not first) as start:
            arrays = self.stores.declare(outputs, self.passes.lane)
            with self.passes.lanes(start) as (col, slot):
                if ahead:
                    ahead.offer(start[1], self._dominant_index(row, col)[1])
                self._element(phase, names, outputs, arrays, row, col, slot, valid)
                if first:
                    self._read_early(self._dominant_index(row, col)[1], slot)
            if outputs:
                with self.out.when(k.both(valid, self.passes.inside)):
                    self.stores.flush()

    def _combine_parts(self, names: dict[Node, str], blocks: CrossBlockReduction) -> None:
        """Reductions of this block become those of the row. A maximum that a sum is relative to waits for the sum."""
        relative = self.schedule.relative
        if relative is not None and relative[1] in names:
            assert self.own is not None
            factor = blocks.combine_relative(self.own, (names[relative[1]], relative[1]))
            self.evaluator.scaled |= dict.fromkeys(exponentials(relative), factor)
        elif relative is not None and relative[0] in names:
            self.own = blocks.keep_own((names[relative[0]], relative[0]))
        else:
            blocks.combine({name: node for node, name in names.items()})

    def _element(self, phase: Phase, names: dict[Node, str], outputs: list[tuple[Node, str]],
                 arrays: dict[str, str], row: Index, col: Index, slot: Index, valid: k.Expr | None) -> None:
        _, flat = self._dominant_index(row, col)
        for node in phase.columns:
            operand = node.operands[0]
            value = self.evaluator.value(operand, delinearize(flat, operand.type.dims))
            self.out.emit(k.SetElement(self.column_sums[node], slot, value, node.kind))
            self._keep(slot, flat)
        for node in phase.reductions:
            operand = node.operands[0]
            value = self.evaluator.value(operand, self._operand_index(node, row, col))
            self._keep(slot, flat)
            if node.kind in ARG_KINDS:
                with self.out.when(self.passes.inside):
                    self.out.emit(k.ArgUpdate(names[node], f"{names[node]}_at", node.kind, value, col))
            else:
                self.out.emit(k.Update(names[node], node.kind, self._or_neutral(node, value)))
        for node, buffer in outputs:
            with self.out.when(k.both(valid, self.passes.inside) if self.passes.lane is None else None):
                self.stores.store(node, buffer, flat, self.passes.lane, arrays)
        self._keep(slot, flat)

    def _or_neutral(self, node: Node, value: k.Expr) -> k.Expr:
        """What a thread beyond the row adds to a reduction is nothing."""
        if self.passes.inside is None:
            return value
        nothing = k.Literal(initial(node), value.dtype)
        return k.Apply(OpKind.SELECT, (self.passes.inside, value, nothing), value.dtype)

    def _keep(self, slot: Index, flat: Index) -> None:
        """Copies staged values that were just computed into their arrays."""
        for node, array in self.passes.at.arrays.items():
            if node in self.passes.at.filled:
                continue
            value = self.out.lookup((node, delinearize(flat, node.type.dims)))
            if value is not None:
                apart = self.mapping.items > 0 or self.mapping.row_blocks > 1  # threads have places of their own
                with self.out.when(None if apart else self.passes.inside):
                    self.out.emit(k.SetElement(array, slot, value))
                self.passes.at.filled.add(node)
                self.evaluator.later[node, flat] = (array, slot)

    def _read_early(self, flat: Index, slot: Index) -> None:
        """What later phases need of an element, and this one does not."""
        for staged in self.schedule.staged:
            if staged.early:
                self.evaluator.value(staged.node, delinearize(flat, staged.node.type.dims))
        self._keep(slot, flat)

    def _dominant_index(self, row: Index, col: Index) -> tuple[MultiIndex, Index]:
        index = self._operand_index(self.schedule.dominant, row, col)
        return index, linearize(index, self.schedule.dominant.operands[0].type.dims)

    def _operand_index(self, node: Node, row: Index, col: Index) -> MultiIndex:
        """Index of the reduced operand: kept axes from the row, reduced axes from the column."""
        dims = node.operands[0].type.dims
        axes = _axes(node)
        kept = iter(delinearize(row, [d for i, d in enumerate(dims) if i not in axes]))
        reduced = iter(delinearize(col, [d for i, d in enumerate(dims) if i in axes]))
        return tuple(next(reduced) if i in axes else next(kept) for i in range(len(dims)))

    def _combine(self, node: Node, name: str, row: Index) -> None:
        dtype = node.operands[0].type.dtype.compute
        width = self.mapping.row_threads
        if node.kind in ARG_KINDS:
            if width > 1:
                self.out.emit(k.ArgAllReduce(name, f"{name}_at", node.kind, width, dtype))
            self.evaluator.reduced[node] = (k.Local(f"{name}_at", node.type.dtype), row)
        else:
            self.evaluator.reduced[node] = (k.Local(name, dtype), row)


def _axes(node: Node) -> tuple[int, ...]:
    if isinstance(node.attrs, ArgReduceAttrs):
        return (node.attrs.axis,)
    assert isinstance(node.attrs, ReduceAttrs)
    return node.attrs.axes

