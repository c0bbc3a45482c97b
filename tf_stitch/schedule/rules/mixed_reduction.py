"""Rule: reductions of rows and, over the same elements, sums across rows."""

from __future__ import annotations

import math
from dataclasses import replace

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ReduceAttrs
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.reductions import keeps_last_axis
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.planning.stitch_plan import Pattern
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, Scheme, Staged, ThreadMapping
from tf_stitch.schedule.phases import row_outputs, split_phases, values_to_stage
from tf_stitch.schedule.prefetch import prefetches_rows
from tf_stitch.schedule.vector_width import vector_width

NAME = "mixed_reduction"

REGISTER_BUDGET = 80
"""Registers that staged values and column sums of a thread may take."""
MAX_THREADS = 512
LEAST_ROWS = 8
"""Of a block that fetches the next one while it works on one."""
WIDE = 256
"""Threads up to which each has one access of a row, not more. On an H200 layernorm backward 65536x1024 took 207 us with
256 threads, 210 with 128."""


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
    row_outputs(pattern, phases, domain.rows)  # asked here already, as the row rule does
    kept = values_to_stage(pattern, phases, elements, loads=device.stages_loads)
    mapping, scheme = _mapping(pattern, domain, rows_per_block, len(kept), len(columns), device, aligned)
    row_bytes = sum(n.type.dtype.compute.size for n in [*kept, *columns]) * domain.cols
    if device.row_buffer_bytes and row_bytes > 2 * device.row_buffer_bytes:
        raise ScheduleError("the row does not fit on the stack")
    schedule = KernelSchedule(NAME, pattern, rows[0], domain, mapping, tuple(Staged(n, scheme) for n in kept))
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


def _mapping(pattern: Pattern, domain: Domain, rows_per_block: int, kept: int, columns: int, device: DeviceSpec,
             aligned: bool) -> tuple[ThreadMapping, Scheme]:
    grid = domain.rows // rows_per_block
    if not device.simt:
        return ThreadMapping(grid, 1, 1, rows_per_block, 1, 0, warp=device.warp), Scheme.REGIONAL
    vector = vector_width(pattern, domain.cols, aligned)
    chunks = math.ceil(domain.cols / vector)
    per_thread = max(1, REGISTER_BUDGET // (kept + columns) // vector)
    threads = device.warp
    while threads < MAX_THREADS and (math.ceil(chunks / threads) > per_thread or threads * 2 <= min(chunks, WIDE)):
        threads *= 2
    items = math.ceil(chunks / threads)
    if items > per_thread:
        raise ScheduleError("the row and its column sums do not fit in registers")
    return ThreadMapping(grid, threads, threads, rows_per_block, vector, items, warp=device.warp), Scheme.LOCAL
