"""Many rows that are longer than the registers of a block: staged in registers and shared memory, of one block or of
those of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import Node
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.schedule.kernel_schedule import KernelSchedule, Scheme, ThreadMapping
from tf_stitch.schedule.prefetch import REDUCTION_BYTES
from tf_stitch.schedule.staged_rows import stage_parts

THREADS, REGISTERS, RESIDENT = 512, 28, 2
"""Of a block, the registers of a thread for its part of a row, and blocks of a processor: while one stores, another
loads. On an H200 softmax 2048x65536 in clusters of two took 269 us so (a copy 264, blocks that wait at grid barriers
308); with one block on a processor, of 64 registers a thread, 311."""
BLOCKS = (1, 2, 4)
"""That share a row. Of softmax 512x200000 eight took 228 us, blocks that wait at grid barriers 231: of 132 processors
clusters of eight find place on 120, for all blocks of one have to be near each other."""
ROOM = ((REGISTERS, RESIDENT), (64, 1))
"""Registers of a thread for its part, at most -> blocks of a processor."""
RESIDENT_THREADS = 1024
"""Of a processor: more would have too few registers for loads under way."""


def stage_rows(single: KernelSchedule, to_stage: Sequence[Node], device: DeviceSpec) -> KernelSchedule | None:
    """Rows that the fewest blocks keep, two of which a processor has room for; None where rows are too long, or fewer
    than the device has room for at once.

    Args:
        single: the schedule of a block for each row.
        to_stage: what is needed in more than one phase.
    """
    for blocks in (blocks for blocks in BLOCKS if blocks <= device.largest_cluster):
        mapping = _mapping(single, to_stage, blocks)
        if mapping is None:
            continue
        try:
            found = with_room(replace(stage_parts(single, to_stage, Scheme.LOCAL), mapping=mapping), device)
        except ScheduleError:
            continue
        if found.resident == RESIDENT:
            return found if mapping.grid >= RESIDENT * device.processors else None
    return None


def with_room(schedule: KernelSchedule, device: DeviceSpec) -> KernelSchedule:
    """The schedule with the memory that a block has for its part of a row, and how many blocks a processor then holds.

    Raises:
        ScheduleError: the part has no room.
    """
    m, column = schedule.mapping, _bytes([s.node for s in schedule.staged if s.instead_of is None])
    accesses = m.beyond if m.items else ceil_div(schedule.domain.cols, m.per_pass)
    shared = accesses * m.threads * m.vector * column
    if shared + REDUCTION_BYTES > device.shared_bytes:
        raise ScheduleError("the blocks' parts of a row do not fit into shared memory", schedule.dominant.loc)
    registers = m.items * m.vector * column // 4
    by_registers = next((blocks for most, blocks in ROOM if registers <= most), 1)
    by_shared = device.shared_bytes // (shared + REDUCTION_BYTES)
    resident = max(1, min(RESIDENT_THREADS // m.threads, by_registers, by_shared))
    return replace(schedule, row_room=accesses * m.threads * m.vector, resident=resident,
                   array_room=device.shared_bytes - REDUCTION_BYTES,
                   relative=schedule.relative if m.row_blocks > 1 else None)


def _mapping(single: KernelSchedule, to_stage: Sequence[Node], blocks: int) -> ThreadMapping | None:
    """As much in registers as there are, the rest in shared memory; None if there are none for two accesses."""
    domain, vector = single.domain, single.mapping.vector
    each = ceil_div(ceil_div(domain.cols, vector), THREADS * blocks)
    items = min(each, REGISTERS // max(_bytes(to_stage) // 4 * vector, 1))
    if each - items == 1:  # templates have no level of one tile
        items -= 1
    if items < 1:
        return None
    return ThreadMapping(domain.rows * blocks, THREADS, THREADS, 1, vector, items, blocks, blocks > 1, each - items,
                         warp=single.mapping.warp)


def _bytes(to_stage: Sequence[Node]) -> int:
    """Of one column."""
    return sum(max(n.type.dtype.compute.size, 4) for n in to_stage)
