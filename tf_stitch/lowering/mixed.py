"""Lowers row and column reductions of one tensor together: layer normalisation's gradients, bias gradients beside
a softmax's. A block walks over its rows; sums across rows stay with the thread that owns the column.

The column reductions are first stages (see transforms.two_stage_reductions): each block writes its own partial sums.
"""

from __future__ import annotations

from tf_stitch.ir.reductions import keeps_last_axis
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, var
from tf_stitch.lowering.kernel import LoweredKernel, finish
from tf_stitch.lowering.prefetch import ReadAhead, Turns
from tf_stitch.lowering.reduce import initial
from tf_stitch.lowering.row import RowLowering
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.schedule.phases import row_outputs, split_phases


def lower_mixed(schedule: KernelSchedule) -> LoweredKernel:
    """The kernel of a mixed schedule.

    Raises:
        ScheduleError: the pattern is not local to rows.
    """
    lowering = RowLowering(schedule)
    out, m, domain = lowering.out, schedule.mapping, schedule.domain
    columns = [n for n in schedule.pattern.nodes if keeps_last_axis(n)]
    phases = split_phases(schedule.pattern, domain.rows * domain.cols, columns)
    lowering.row_outputs = row_outputs(schedule.pattern, phases, domain.rows)
    for node in columns:
        name = lowering.column_sums[node] = out.fresh("sum")
        size = m.items * m.vector if m.items else domain.cols
        out.emit(k.Array(name, node.type.dtype.compute, size, init=initial(node), note=schedule.pattern.name(node)))
    block, step = var(Var(k.BLOCK, m.grid)), Var("step", m.rows_per_block)
    if schedule.ahead:
        turns = Turns(var(step), 1, m.rows_per_block, lambda number: block * m.rows_per_block + number)
        lowering.ahead = ReadAhead(schedule, lowering.buffers, lowering.evaluator, turns, lowering.passes.chunk)
        lowering.ahead.begin(Index(), None)
    # What was fetched needs no iterations written out to be under way, and the registers that they would take.
    with out.loop(step, k.Loop.SERIAL, together=1 if schedule.ahead else k.TOGETHER):
        lowering.rows(phases, block * m.rows_per_block + var(step), None)
    buffers = {n: lowering.buffers.writing(n) for n in columns}
    out.emit(k.Comment("sums over the rows of this block", schedule.pattern.names(columns)))
    passes = lowering.passes
    with passes.columns(passes.loops[0]) as start, passes.lanes(start) as (col, slot):
        for node, name in lowering.column_sums.items():
            value = k.Element(name, slot, node.type.dtype.compute)
            with out.when(passes.inside):
                out.emit(k.Store(buffers[node], block * domain.cols + col, value))
    return finish(schedule, out, lowering.buffers)
