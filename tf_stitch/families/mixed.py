"""Reductions of rows and, over the same elements, sums across rows: layer normalisation's gradients, bias gradients
beside a softmax's. A block walks over its rows; sums across rows stay with the thread that owns the column.

The column reductions are first stages (see passes.two_stage_reductions): each block writes its own partial sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.candidates import MOST_ELEMENTS, powers, vectors
from tf_stitch.families.family import (
    ACROSS,
    BLOCK_ROWS,
    GRID,
    ITEMS,
    STEPS,
    VECTOR,
    KernelFamily,
    Request,
    Tilings,
    by_threads,
    keep,
    mapped,
)
from tf_stitch.families.row.lower import RowLowering
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ReduceAttrs
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.reductions import initial, keeps_last_axis
from tf_stitch.ir.symbolic_dims import SymbolicDim, ceil_div
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, var
from tf_stitch.lowering.kernel import LoweredKernel, finish
from tf_stitch.lowering.prefetch import RowPrefetch, Turns
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.kernel_schedule import MAX_THREADS, Domain, KernelSchedule, Scheme, Staged, ThreadMapping
from tf_stitch.schedule.phases import row_outputs, split_phases, values_to_read_early, values_to_stage
from tf_stitch.schedule.prefetch import prefetches_rows
from tf_stitch.schedule.vector_width import vector_width

NAME = "mixed_reduction"

REGISTER_BUDGET = 80
"""Registers that staged values and column sums of a thread may take."""
WIDEST_BLOCK = 512
"""Threads of a block that is proposed; a template may have more."""
LEAST_ROWS = 8
"""Of a block that copies the next one while it works on one."""


def propose_mixed(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    """The mixed schedule.

    Raises:
        ScheduleError: not both kinds of reduction, not over the same elements in the same order, a sum across rows
            that the kernel itself needs, or an output that is neither a row's nor an element's.
    """
    reductions = [n for n in pattern.nodes if n.category is Category.REDUCTION]
    columns = [n for n in reductions if keeps_last_axis(n)]
    rows = [n for n in reductions if n not in columns]
    if not rows or not columns:
        raise ScheduleError("not row and column reductions together")
    if any(o in columns for n in pattern.nodes for o in n.operands):
        raise ScheduleError("a sum across rows is needed before it is complete")
    domains = {_row_domain(n) for n in rows}
    if len(domains) > 1:
        raise ScheduleError("row reductions of different extents")
    domain = domains.pop()
    if isinstance(domain.cols, SymbolicDim):
        raise ScheduleError("rows whose length changes")
    blocks = {_block_rows(n, domain) for n in columns}
    if len(blocks) > 1:
        raise ScheduleError("column reductions of different extents")
    rows_per_block = blocks.pop()
    elements = domain.rows * domain.cols
    phases = split_phases(pattern, elements, columns)
    row_outputs(pattern, phases, domain.rows)  # asked here already, as the row family does
    to_stage = values_to_stage(pattern, phases, elements, loads=device.stages_loads, views=True)
    mapping, scheme = _mapping(pattern, domain, rows_per_block, len(to_stage), len(columns), device, aligned)
    staged = [Staged(n, scheme) for n in to_stage]
    if mapping.items:
        room = max(REGISTER_BUDGET // (mapping.items * mapping.vector) - len(to_stage) - len(columns), 0)
        early = values_to_read_early(pattern, phases, elements)[:room]
        staged += [Staged(n, scheme, early=True) for n in early]
    row_bytes = sum(n.type.dtype.compute.size for n in [*to_stage, *columns]) * domain.cols
    if device.row_buffer_bytes and row_bytes > 2 * device.row_buffer_bytes:
        raise ScheduleError("the row does not fit on the stack")
    schedule = KernelSchedule(NAME, pattern, rows[0], domain, mapping, tuple(staged))
    return [replace(schedule, ahead=prefetches_rows(schedule, device, LEAST_ROWS))]


def _row_domain(node: Node) -> Domain:
    """Rows and columns of a reduction over trailing axes: element r * cols + c is the operand's in memory order."""
    rank = node.operands[0].type.rank
    if not isinstance(node.attrs, ReduceAttrs) or node.attrs.axes != tuple(range(node.attrs.axes[0], rank)):
        raise ScheduleError(f"{node.kind.value} does not reduce trailing axes", node.loc)
    return Domain(node.type.numel, node.operands[0].type.numel // max(node.type.numel, 1))


def _block_rows(node: Node, domain: Domain) -> int:
    """Rows that one partial sum covers: the operand is [blocks, rows of a block, columns]."""
    dims, axes = node.operands[0].type.dims, node.attrs.axes if isinstance(node.attrs, ReduceAttrs) else ()
    length, inner = math.prod(dims[a] for a in axes), math.prod(dims[axes[-1] + 1:])
    together = axes == tuple(range(axes[0], axes[-1] + 1))
    if not together or inner != domain.cols or math.prod(dims) != domain.rows * domain.cols:
        raise ScheduleError("a sum across other rows", node.loc)
    return length


def _mapping(pattern: Pattern, domain: Domain, rows_per_block: int, to_stage: int, columns: int, device: DeviceSpec,
             aligned: bool) -> tuple[ThreadMapping, Scheme]:
    grid = domain.rows // rows_per_block
    if not device.simt:
        return ThreadMapping(grid, 1, 1, rows_per_block, 1, 0, warp=device.warp), Scheme.REGIONAL
    vector = vector_width(pattern, domain.cols, aligned)
    chunks = math.ceil(domain.cols / vector)
    per_thread = max(1, REGISTER_BUDGET // (to_stage + columns) // vector)
    threads, wide = device.warp, min(chunks, device.profile.sizes.wide_threads)
    while threads < WIDEST_BLOCK and (math.ceil(chunks / threads) > per_thread or threads < wide):
        threads *= 2
    items = math.ceil(chunks / threads)
    if items > per_thread:
        raise ScheduleError("the row and its column sums do not fit in registers")
    return ThreadMapping(grid, threads, threads, rows_per_block, vector, items, warp=device.warp), Scheme.LOCAL


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
        lowering.ahead = RowPrefetch(schedule, lowering.buffers, lowering.evaluator, turns, lowering.passes.chunk)
        lowering.ahead.begin(Index(), None)
    with out.loop(step, k.Loop.SERIAL, together=1):  # no load of a row passes the barriers of the one before
        lowering.rows(phases, block * m.rows_per_block + var(step), None)
    _store_sums(lowering, columns)
    return finish(schedule, out, lowering.buffers)


def _store_sums(lowering: RowLowering, columns: list[Node]) -> None:
    """What the block's rows add up to, a part of each column's sum."""
    out, passes, evaluator = lowering.out, lowering.passes, lowering.evaluator
    outputs = [(node, lowering.buffers.writing(node)) for node in columns]
    out.emit(k.Comment("sums over the rows of this block", lowering.schedule.pattern.names(columns)))
    with passes.columns(passes.loops[0]) as start:
        arrays = lowering.stores.declare(outputs, passes.lane)
        with passes.lanes(start) as (col, slot):
            at = var(Var(k.BLOCK, lowering.mapping.grid)) * lowering.domain.cols + col
            for node, buffer in outputs:
                element = k.Element(lowering.column_sums[node], slot, node.type.dtype.compute)
                evaluator.reduced[node] = element, at
                with out.when(passes.inside if passes.lane is None else None):
                    lowering.stores.store(node, buffer, at, passes.lane, arrays)
        with out.when(passes.inside):
            lowering.stores.flush()


def _retile(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    m = schedule.mapping
    _same_rows(schedule, request, device)
    threads, vector = request.extent("row_threads", m.threads), request.extent("vector", m.vector)
    items = ceil_div(schedule.domain.cols, threads * vector)
    if request.extent("items", items) != items:
        raise ScheduleError(f"{threads} threads and accesses of {vector} take a row in {items}", schedule.dominant.loc)
    if threads % m.warp or threads & (threads - 1):
        raise ScheduleError(f"rows of {threads} threads; powers of two from {m.warp} can be", schedule.dominant.loc)
    found = mapped(schedule, threads=threads, row_threads=threads, vector=vector, items=items)
    return replace(found, ahead=prefetches_rows(found, device, LEAST_ROWS))


def _same_rows(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    keep(schedule, request, "rows_per_block", schedule.mapping.rows_per_block, "rows of a partial sum")
    return schedule


def _candidates(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    for vector in vectors(schedule):
        for threads in powers(device.warp, MAX_THREADS):
            items = ceil_div(schedule.domain.cols, threads * vector)
            if items * vector <= MOST_ELEMENTS:
                yield f"*[GRID-THREAD_{schedule.mapping.rows_per_block},THREAD_{items}-CTA_{threads}-THREAD_{vector}];"


_BLOCKS = Tilings(((GRID, BLOCK_ROWS), (ITEMS, ACROSS, VECTOR)), _retile, _candidates)
_TASKS = Tilings(((GRID, BLOCK_ROWS), (STEPS,)), _same_rows)


def _with_threads(schedule: KernelSchedule, threads: int) -> ThreadMapping:
    m = schedule.mapping
    if threads < m.threads or threads & (threads - 1):
        raise ScheduleError(f"rows of {threads} threads; powers of two from {m.threads} can be", schedule.dominant.loc)
    return replace(m, threads=threads, row_threads=threads, items=ceil_div(schedule.domain.cols, threads * m.vector))


MIXED = KernelFamily(NAME, propose_mixed, lower_mixed, by_threads(_BLOCKS, _TASKS), with_threads=_with_threads)
