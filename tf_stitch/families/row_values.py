"""Elements of rows with a value of their row that is dear, on GPUs: powers and the like before a broadcast. A block
computes such values once for each of its rows, a thread for a row, and shares them in memory of the block; its threads
then go over the elements (AStitch sections 4.2 and 4.3: a heavy element-wise op before a broadcast is a dominant)."""

from __future__ import annotations

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.family import ACROSS, GRID, ITEMS, VECTOR, KernelFamily, Slot, Tilings, fixed
from tf_stitch.families.row.cross_block_reduction import CrossBlockReduction
from tf_stitch.families.row.lower import RowLowering
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import COLLECTED, OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim, ceil_div
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, delinearize, var
from tf_stitch.lowering.evaluate import MultiIndex
from tf_stitch.lowering.kernel import LoweredKernel, finish
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, Scheme, Staged, ThreadMapping
from tf_stitch.schedule.phases import cost_of, split_phases
from tf_stitch.schedule.vector_width import vector_width
from tf_stitch.templates import LevelKind

NAME = "row_values"

SHARED_BY = 8
"""Threads of a row that would compute its values again, at least."""
THREADS = 256
"""Of a block."""
MOST_ITEMS = 8
"""Accesses of a thread, of all its rows together, that are unrolled."""


def propose_row_values(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    """The schedule of rows whose values a block shares.

    Raises:
        ScheduleError: a CPU, a reduction, scan or transpose, no dear value of rows, sizes that change, or an output
            that is neither a row's nor an element's.
    """
    if not device.simt:
        raise ScheduleError("threads of a CPU share no values of rows")
    if any(n.category in COLLECTED or n.kind is OpKind.TRANSPOSE for n in pattern.nodes):
        raise ScheduleError("a reduction, scan or transpose")
    elements = max((n.type.numel for n in pattern.outputs if not isinstance(n.type.numel, SymbolicDim)), default=0)
    values = dear_row_values(pattern, elements, device)
    if not values:
        raise ScheduleError("no dear value of rows")
    rows = values[0].type.numel
    for node in pattern.outputs:
        if node.type.numel not in (rows, elements):
            raise ScheduleError(f"an output of {node.type} is neither a row nor an element of the domain", node.loc)
    cols = elements // rows
    vector = vector_width(pattern, cols, aligned)
    chunks = cols // vector
    row_threads = min(1 << (chunks - 1).bit_length(), THREADS)
    if row_threads < SHARED_BY:
        raise ScheduleError("few threads share a row")
    items, at_once = ceil_div(chunks, row_threads), THREADS // row_threads
    waves = max(1, MOST_ITEMS // items)
    while waves > 1 and rows < at_once * waves * device.profile.sizes.busy_blocks * device.processors:
        waves //= 2
    mapping = ThreadMapping(ceil_div(rows, at_once * waves), THREADS, row_threads, at_once * waves, vector,
                            items if items <= MOST_ITEMS else 0, warp=device.warp)
    staged = tuple(Staged(node, Scheme.REGIONAL) for node in values)
    return [KernelSchedule(NAME, pattern, values[0], Domain(rows, cols), mapping, staged)]


def dear_row_values(pattern: Pattern, elements: int, device: DeviceSpec) -> list[Node]:
    """Values that all elements of a row need, and that cost much to compute again: all of as many rows as the dearest.

    Args:
        elements: of the domain.
    """
    found: dict[Node, int] = {}
    for user in pattern.nodes:
        if user.type.numel == elements:
            for operand in user.operands:
                if operand in found or operand in pattern.free or not pattern.holds(operand):
                    continue
                cost = cost_of(operand, pattern) if _is_row_of(operand, user) else 0
                if cost >= device.profile.sizes.dear_cycles:
                    found[operand] = cost
    if not found:
        return []
    rows = max(found, key=lambda node: (found[node], node.type.numel)).type.numel
    return [node for node in found if node.type.numel == rows]


def _is_row_of(value: Node, user: Node) -> bool:
    """Whether a value is broadcast along the last axes of its user, and along no others."""
    dims, whole = value.type.dims, user.type.dims
    if any(isinstance(dim, SymbolicDim) for dim in (*dims, *whole)) or not 1 < value.type.numel < user.type.numel:
        return False
    dims = (1,) * (len(whole) - len(dims)) + dims
    kept = max(axis for axis, dim in enumerate(dims) if dim > 1) + 1
    return dims[:kept] == whole[:kept]


def lower_row_values(schedule: KernelSchedule) -> LoweredKernel:
    """The kernel of a schedule of shared row values.

    Raises:
        ScheduleError: an element needs the value of another row.
    """
    return _Lowering(schedule).run()


class _Lowering(RowLowering):
    """As rows of reductions, with values of rows that are computed first."""

    def run(self) -> LoweredKernel:
        arrays = self._share_values()
        phases = split_phases(self.schedule.pattern, self.elements)
        m = self.mapping
        wave, thread = Var("wave", m.waves), var(Var(k.THREAD, m.threads))
        with self.out.loop(wave, k.Loop.UNROLL):
            row, valid = self._row()
            place = var(wave) * (m.rows_per_block // m.waves) + thread // m.row_threads
            for node, array in arrays.items():
                self.evaluator.reduced[node] = (k.Element(array, place, node.type.dtype.compute), row)
            blocks = CrossBlockReduction(self.schedule, self.out, self.buffers, row, self.passes.part)
            for phase in phases:
                self._phase(phase, row, valid, blocks, True)
        return finish(self.schedule, self.out, self.buffers)

    def _dominant_index(self, row: Index, col: Index) -> tuple[MultiIndex, Index]:
        flat = row * self.domain.cols + col
        return (flat,), flat

    def _share_values(self) -> dict[Node, str]:
        """Computes the values of the block's rows, and what is written of rows; the arrays that then hold them."""
        m, rows, pattern = self.mapping, self.domain.rows, self.schedule.pattern
        arrays = {staged.node: self.out.fresh("row_values") for staged in self.schedule.staged}
        self.out.emit(k.Comment("values of the block's rows", pattern.names(arrays)))
        for node, array in arrays.items():
            self.out.emit(k.Array(array, node.type.dtype.compute, m.rows_per_block, k.Space.SHARED,
                                  note=pattern.name(node)))
        step = Var("step", ceil_div(m.rows_per_block, m.threads))
        place = var(step) * m.threads + var(Var(k.THREAD, m.threads))
        mine = None if m.rows_per_block % m.threads == 0 else k.InRange(place, 0, m.rows_per_block)
        with self.out.loop(step, k.Loop.UNROLL), self.out.when(mine):
            if mine is not None:
                place = self.out.clamped("place", place, m.rows_per_block)
            row = var(Var(k.BLOCK, m.grid)) * m.rows_per_block + place
            exists = None if rows % m.rows_per_block == 0 else k.InRange(row, 0, rows)
            if exists is not None:
                row = self.out.clamped("own_row", row, rows)
            for node, array in arrays.items():
                value = self.evaluator.value(node, delinearize(row, node.type.dims))
                self.out.emit(k.SetElement(array, place, value))
            outputs = [node for node in pattern.outputs if node.type.numel == rows]
            with self.out.when(exists if outputs else None):
                for node in outputs:
                    value = self.evaluator.value(node, delinearize(row, node.type.dims))
                    self.out.emit(k.Store(self.buffers.writing(node), row, value))
        self.out.emit(k.Barrier())
        return arrays


_BLOCKS = Tilings(((GRID, Slot(LevelKind.THREAD, "waves"), Slot(LevelKind.CTA, "at_once")), (ITEMS, ACROSS, VECTOR)),
                  fixed)

ROW_VALUES = KernelFamily(NAME, propose_row_values, lower_row_values, lambda schedule: _BLOCKS)
