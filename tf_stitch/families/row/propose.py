"""Schedules of rows: a warp or a block for each, or several blocks that share one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.row.on_chip_rows import stage_rows
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.reductions import ARG_KINDS
from tf_stitch.ir.symbolic_dims import SymbolicDim, ceil_div
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.demotion import one_by_one, regional_schedules
from tf_stitch.schedule.few_blocks import few_blocks, loads_together
from tf_stitch.schedule.kernel_schedule import MAX_THREADS, Domain, KernelSchedule, Scheme, Staged, ThreadMapping
from tf_stitch.schedule.phases import (
    exponentials,
    prefetched_values,
    relative_sum,
    require_row_output,
    split_phases,
    values_to_stage,
)
from tf_stitch.schedule.prefetch import REDUCTION_BYTES, prefetches_rows
from tf_stitch.schedule.shared_rows import LONG_ROW, SHARING_BLOCKS, SHARING_BYTES, SHARING_THREADS
from tf_stitch.schedule.staged_rows import stage_parts, within_budget
from tf_stitch.schedule.vector_width import vector_width

NAME = "row_reduction"

REGISTER_ELEMENTS = 32
"""Elements of one staged row value that a thread keeps in registers."""
REGISTER_BUDGET = 64
"""Registers all staged values of a thread may take."""
BLOCK_THREADS = 128
"""Of a block, at least: short rows share one."""
FEW_ROWS_ITEMS = 2
"""Accesses of a row until which threads of a block share it where every row has a processor to itself: what a thread
does for a row is what the kernel takes."""
SHORTEST_GROUP = 8
"""Least threads that share a row whose length changes."""
SHARED_ELEMENTS = 16
"""Of a row that blocks share, what a thread keeps in registers."""
LEAST_TURNS = 2
"""Of blocks that share rows and copy the next one while they work on one."""
SHORT_ROW_WAVES = 4
"""Rows a thread group takes one after the other where a row is a single access per thread."""


def propose_row(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    """Row schedules, best first.

    Raises:
        ScheduleError: no reduction, reductions of different extents, or an output that is neither a row's nor an
            element's.
    """
    reductions = [n for n in pattern.nodes if n.category is Category.REDUCTION]
    if not reductions:
        raise ScheduleError("no reduction")
    domains = {Domain(n.type.numel, n.operands[0].type.numel // max(n.type.numel, 1)) for n in reductions}
    if len(domains) > 1:
        raise ScheduleError("reductions of different extents")
    domain = domains.pop()
    dominant = _dominant(reductions)
    elements = domain.rows * domain.cols
    for node in pattern.outputs:  # asked here already: the planner grows patterns by what is proposed
        if node.type.numel != elements:
            require_row_output(node, domain.rows)
    if device.simt:
        single = _gpu(pattern, dominant, domain, device, aligned)
        shared = split_rows(single[0], reductions, device)
        return single if shared is None else [shared, *single]
    to_stage = values_to_stage(pattern, split_phases(pattern, elements), elements, loads=device.stages_loads)
    schedule = KernelSchedule(NAME, pattern, dominant, domain,
                              ThreadMapping(domain.rows, 1, 1, 1, 1, 0, warp=device.warp))
    if not isinstance(domain.cols, SymbolicDim):
        return list(regional_schedules(schedule, to_stage, device.row_buffer_bytes, device))
    column_bytes = sum(n.type.dtype.compute.size for n in to_stage)
    fits = column_bytes * domain.cols <= device.row_buffer_bytes
    staged = tuple(Staged(n, Scheme.REGIONAL) for n in to_stage) if fits else ()
    return [replace(schedule, staged=staged, row_room=device.row_buffer_bytes // max(column_bytes, 1))]


def _dominant(reductions: list[Node]) -> Node:
    """The first reduction: its operand's layout decides the order of elements."""
    return reductions[0]


def _gpu(pattern: Pattern, dominant: Node, domain: Domain, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    elements = domain.rows * domain.cols
    to_stage = values_to_stage(pattern, split_phases(pattern, elements), elements, loads=device.stages_loads)
    vector = vector_width(pattern, domain.cols, aligned)
    changes = isinstance(domain.cols, SymbolicDim)  # then few kernels have to serve all lengths
    per_thread = max(1, min(REGISTER_ELEMENTS, REGISTER_BUDGET // max(len(to_stage), 1)) // vector)
    row_threads, items = _threads_of_row(domain, vector, per_thread, device)
    in_registers = items <= per_thread
    if in_registers:
        fit = within_budget(pattern, to_stage, row_threads, items * vector)
        in_registers, to_stage = fit is not None, fit or to_stage
    if not in_registers:  # a loop; a row in shared memory has the block to itself
        items, row_threads = 0, max(row_threads, BLOCK_THREADS)
    at_once = max(1, BLOCK_THREADS // row_threads)
    many = not isinstance(domain.rows, SymbolicDim) and domain.rows > SHORT_ROW_WAVES * at_once * 64 * device.processors
    # Vertical packing: several loads in flight.
    rows_per_block = at_once * (SHORT_ROW_WAVES if items == 1 and many else 1)
    mapping = ThreadMapping(ceil_div(domain.rows, rows_per_block), at_once * row_threads, row_threads,
                            rows_per_block, vector, items, warp=device.warp)
    local = tuple(Staged(n, Scheme.LOCAL) for n in to_stage) if in_registers else ()
    schedule = KernelSchedule(NAME, pattern, dominant, domain, mapping, local,
                              row_room=_power_of_two(domain.cols) if changes else domain.cols)
    if in_registers:
        return [schedule]
    if not to_stage and not changes and few_blocks(mapping.grid, device):
        schedule = replace(schedule, together=loads_together(pattern, elements, vector))
    room = device.shared_bytes - REDUCTION_BYTES
    if not changes:
        return list(regional_schedules(schedule, to_stage, room, device))
    fits = _row_bytes(to_stage, domain) <= room
    return [replace(schedule, staged=tuple(Staged(n, Scheme.REGIONAL) for n in to_stage)) if fits else schedule]


def _threads_of_row(domain: Domain, vector: int, per_thread: int, device: DeviceSpec) -> tuple[int, int]:
    """How many threads share a row, and how many vectors each has of it.

    Args:
        per_thread: vectors that fit into the registers of a thread.
    """
    chunks, changes = ceil_div(domain.cols, vector), isinstance(domain.cols, SymbolicDim)
    row_threads = max(min(_power_of_two(chunks), device.warp), SHORTEST_GROUP if changes else 1)
    while row_threads < MAX_THREADS and ceil_div(chunks, row_threads) > min(per_thread, 8):
        row_threads *= 2
    if not changes and not isinstance(domain.rows, SymbolicDim) and domain.rows <= device.processors:
        while row_threads < BLOCK_THREADS and ceil_div(chunks, row_threads) > FEW_ROWS_ITEMS:
            row_threads *= 2
    items = ceil_div(chunks, row_threads)
    if changes:
        items = _power_of_two(items)
        while items > per_thread and row_threads < MAX_THREADS:
            row_threads, items = 2 * row_threads, items // 2
    return row_threads, items


def _row_bytes(to_stage: Sequence[Node], domain: Domain) -> int:
    return sum(n.type.dtype.compute.size for n in to_stage) * domain.cols


def split_rows(single: KernelSchedule, reductions: list[Node], device: DeviceSpec) -> KernelSchedule | None:
    """Long rows. Many that are longer than the registers of a block stay in registers and shared memory, of a block or
    a cluster. Others are shared by several blocks that keep their parts: in registers if all rows fit at once, or if
    blocks take them in turn and prefetch the next; else in shared memory, as many values as all blocks have room for.
    None where a block has room for a row and there are rows enough.

    Args:
        single: the schedule of a block for each row.
    """
    domain, mapping = single.domain, single.mapping
    if (domain.cols < LONG_ROW or any(isinstance(n, SymbolicDim) for n in (domain.rows, domain.cols))
            or any(n.kind in ARG_KINDS for n in reductions)):
        return None
    elements = domain.rows * domain.cols
    phases = split_phases(single.pattern, elements)
    to_stage = values_to_stage(single.pattern, phases, elements, loads=device.stages_loads)
    has_room = mapping.items > 0 or _row_bytes(to_stage, domain) <= device.shared_bytes - REDUCTION_BYTES
    relative = relative_sum(single.pattern, phases)
    if relative is not None:  # another takes no room or is computed again, cheaper than a cross-block reduction
        to_stage = [n for n in to_stage if n not in exponentials(relative)]
    outside = prefetched_values(single.pattern, to_stage) or to_stage  # the rest is computed again
    in_two_places = None if mapping.items else stage_rows(single, outside, device)
    if in_two_places is not None:
        return in_two_places
    if not device.grid_barrier or (has_room and 2 * domain.rows > device.processors):
        return None
    usual = SHARING_BLOCKS, SHARING_THREADS
    at_once = _parts(single, to_stage, Scheme.LOCAL, usual, SHARED_ELEMENTS // mapping.vector, device)
    if at_once is not None and at_once.launched == at_once.mapping.grid:
        return at_once
    regional = _in_shared_memory(single, outside, device)
    sizes = device.profile.sizes
    accesses = sizes.turn_elements // max(len(outside), 1) // mapping.vector
    in_turn = _parts(single, outside, Scheme.LOCAL, (sizes.turn_blocks, sizes.turn_threads), accesses, device)
    if in_turn is None or not in_turn.ahead:
        return regional
    if regional is not None and (_turns(regional) == 1 or _turns(in_turn) > sizes.turn_times * _turns(regional)):
        return regional
    return in_turn


def _turns(schedule: KernelSchedule) -> int:
    """Rows that a block has a part of, one after the other."""
    return ceil_div(schedule.mapping.grid, schedule.launched)


def _in_shared_memory(single: KernelSchedule, to_stage: list[Node], device: DeviceSpec) -> KernelSchedule | None:
    """Parts of rows in shared memory, where possible those of all `to_stage`."""
    for still in one_by_one(single.pattern, to_stage, device):
        access = sum(n.type.dtype.compute.size for n in still) * SHARING_THREADS * single.mapping.vector
        blocks = SHARING_BLOCKS, SHARING_THREADS
        found = _parts(single, still, Scheme.REGIONAL, blocks, SHARING_BYTES // max(access, 1), device)
        if found is not None:
            return found
    return None


def _parts(single: KernelSchedule, to_stage: Sequence[Node], scheme: Scheme, resident: tuple[int, int], accesses: int,
           device: DeviceSpec) -> KernelSchedule | None:
    """Rows shared by as few blocks as can keep `to_stage` of them; None where the device does not hold those of one.

    Args:
        resident: blocks of a processor, and their threads.
        accesses: of a row, those of a thread, at most.
    """
    domain, vector, (of_processor, threads) = single.domain, single.mapping.vector, resident
    slots, chunks = of_processor * device.processors, ceil_div(domain.cols, vector)
    fewest = ceil_div(chunks, threads * max(accesses, 1))
    if fewest > slots:
        return None
    at_once = min(slots // fewest, domain.rows)
    blocks = min(slots // at_once, ceil_div(chunks, threads))
    items = ceil_div(chunks, threads * blocks)
    mapping = ThreadMapping(domain.rows * blocks, threads, threads, 1, vector, items if scheme is Scheme.LOCAL else 0,
                            blocks, warp=device.warp)
    shared = replace(stage_parts(single, to_stage, scheme), mapping=mapping, row_room=items * threads * vector,
                     resident=of_processor, launched=at_once * blocks)
    return replace(shared, ahead=prefetches_rows(shared, device, LEAST_TURNS))


def _power_of_two(n: int) -> int:
    return 1 << max(0, int(n - 1).bit_length())
