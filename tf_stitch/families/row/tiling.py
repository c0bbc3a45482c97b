"""Other tilings of row schedules: what shares a row, and where it stays between the phases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.family import LOOP
from tf_stitch.families.row.on_chip_rows import with_room
from tf_stitch.families.row.propose import LEAST_TURNS, REGISTER_ELEMENTS
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.reductions import ARG_KINDS
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.schedule.kernel_schedule import KernelSchedule, Scheme, Staged, ThreadMapping
from tf_stitch.schedule.phases import prefetched_values, split_phases, values_to_stage
from tf_stitch.schedule.prefetch import REDUCTION_BYTES, prefetches_rows
from tf_stitch.schedule.shared_rows import SHARING_BLOCKS, SHARING_THREADS
from tf_stitch.schedule.staged_rows import stage_parts, within_budget

USUAL_THREADS = 128
"""Of a block whose rows are few threads each, if the template does not say."""


def tile_rows(schedule: KernelSchedule, numbers: Mapping[str, int | None], wants: Callable[[Node], bool],
              device: DeviceSpec) -> KernelSchedule:
    """A row schedule of that tiling.

    Args:
        numbers: see read_tilings.
        wants: whether a value that is needed in a later phase is staged in memory of the block.

    Raises:
        ScheduleError: it cannot be.
    """
    to_stage = stageable_values(schedule, device)
    if not device.simt:
        staged = tuple(Staged(n, Scheme.REGIONAL) for n in to_stage if wants(n))
        return _with_room(replace(schedule, staged=staged), device.row_buffer_bytes)
    mapping = _mapping(schedule, numbers)
    staged = (tuple(Staged(n, Scheme.LOCAL) for n in _in_registers(schedule, mapping, to_stage)) if mapping.items
              else tuple(Staged(n, Scheme.REGIONAL) for n in to_stage if wants(n)))
    tiled = replace(schedule, mapping=mapping, staged=staged, row_room=schedule.domain.cols, resident=0, launched=0,
                    relative=None, ahead=False)
    if mapping.row_blocks > 1:
        scheme = Scheme.LOCAL if mapping.items else Scheme.REGIONAL
        parts = stage_parts(tiled, [s.node for s in staged], scheme)
        return _shared_by_cluster(parts, device) if mapping.cluster else _shared_by_blocks(parts, device)
    if mapping.beyond:
        return with_room(stage_parts(tiled, [s.node for s in staged], Scheme.LOCAL), device)
    if mapping.items:
        return replace(tiled, array_room=0)
    if staged and mapping.rows_per_block > 1:
        raise ScheduleError("a row in shared memory has the block to itself", schedule.dominant.loc)
    return _with_room(tiled, device.shared_bytes - REDUCTION_BYTES)


def _in_registers(schedule: KernelSchedule, mapping: ThreadMapping, to_stage: list[Node]) -> list[Node]:
    """Which values of a row registers hold: all, where none of the choices applies."""
    chosen: list[Node] | None = None
    if mapping.beyond or mapping.cluster:
        chosen = prefetched_values(schedule.pattern, to_stage)
    elif mapping.row_blocks == 1:
        chosen = within_budget(schedule.pattern, to_stage, mapping.threads, mapping.items * mapping.vector)
    return chosen or to_stage


def _with_room(schedule: KernelSchedule, room: int) -> KernelSchedule:
    """The schedule with `room` bytes for rows: lowering, which lets arrays share memory, holds it to that."""
    if any(s.node.type.dtype.compute.size * schedule.domain.cols > room for s in schedule.staged):
        raise ScheduleError("the row does not fit into memory of the block", schedule.dominant.loc)
    return replace(schedule, array_room=room)


def stageable_values(schedule: KernelSchedule, device: DeviceSpec) -> list[Node]:
    """Values of a row that a later phase needs again."""
    elements = schedule.domain.rows * schedule.domain.cols
    phases = split_phases(schedule.pattern, elements)
    return values_to_stage(schedule.pattern, phases, elements, loads=device.stages_loads)


def _mapping(schedule: KernelSchedule, numbers: Mapping[str, int | None]) -> ThreadMapping:
    base, domain, where = schedule.mapping, schedule.domain, schedule.dominant.loc

    def number(name: str, otherwise: int) -> int:
        given = numbers[name]
        return otherwise if given is None else given

    vector, blocks = number("vector", base.vector), number("row_blocks", base.row_blocks)
    threads = number("row_threads", base.warp if numbers["warp"] else base.row_threads)
    if threads & (threads - 1) or not threads:
        raise ScheduleError(f"{threads} threads share a row; powers of two can", where)
    if numbers["warp"] and threads != base.warp:
        raise ScheduleError(f"a warp has {base.warp} threads, not {threads}", where)
    each = ceil_div(ceil_div(domain.cols, vector), threads * blocks)
    items = number("items", each if each * vector <= REGISTER_ELEMENTS else LOOP)
    beyond = number("beyond", 1)
    beyond = 0 if beyond == 1 else beyond  # a level that is missing has one tile
    if items + beyond not in (LOOP, each) or (beyond and not items):
        raise ScheduleError(f"{threads * blocks} threads and accesses of {vector} take a row of {domain.cols} in "
                            f"{each}, not in {items + beyond}", where)
    alone = blocks > 1 or (base.row_blocks > 1 and numbers["at_once"] is None)
    at_once = number("at_once", 1 if alone else max(1, USUAL_THREADS // threads))
    waves = number("waves", 1)
    if threads * at_once % base.warp:
        raise ScheduleError(f"a block of {threads * at_once} threads; warps have {base.warp}", where)
    rows = at_once * waves
    if blocks > 1 and rows > 1:
        raise ScheduleError("blocks that share a row have one at a time", where)
    cluster = bool(numbers["cluster"]) if numbers["row_blocks"] else base.cluster
    return ThreadMapping(domain.rows * blocks if blocks > 1 else ceil_div(domain.rows, rows), threads * at_once,
                         threads, rows, vector, items, blocks, cluster and blocks > 1, beyond, warp=base.warp)


def _shared_by_cluster(schedule: KernelSchedule, device: DeviceSpec) -> KernelSchedule:
    """With the memory that a block has for its part of a row."""
    blocks = schedule.mapping.row_blocks
    _require_parts(schedule)
    if blocks > device.largest_cluster or blocks & (blocks - 1):
        raise ScheduleError(f"a cluster of {blocks} blocks; the device has those of {device.largest_cluster} at most, "
                            "and powers of two", schedule.dominant.loc)
    return with_room(schedule, device)


def _require_parts(schedule: KernelSchedule) -> None:
    if any(n.kind in ARG_KINDS for n in schedule.pattern.nodes if n.category is Category.REDUCTION):
        raise ScheduleError("blocks cannot share a row whose arg max they look for", schedule.dominant.loc)


def _shared_by_blocks(schedule: KernelSchedule, device: DeviceSpec) -> KernelSchedule:
    """With the blocks that are launched: they wait for each other, so all are resident."""
    mapping, domain, where = schedule.mapping, schedule.domain, schedule.dominant.loc
    _require_parts(schedule)
    if not device.grid_barrier:
        raise ScheduleError("blocks share a row, and those of the device cannot wait for each other", where)
    if mapping.beyond:
        raise ScheduleError("blocks that wait at a grid barrier keep rows in one place", where)
    resident = max(1, SHARING_BLOCKS * SHARING_THREADS // mapping.threads)
    sizes = device.profile.sizes
    if mapping.items and mapping.threads == sizes.turn_threads and resident * device.processors < mapping.grid:
        resident = sizes.turn_blocks
    slots = resident * device.processors
    if mapping.row_blocks > slots:
        raise ScheduleError(f"{mapping.row_blocks} blocks share a row; {slots} are resident", where)
    per_block = mapping.threads * mapping.vector
    passes = ceil_div(domain.cols, per_block * mapping.row_blocks)
    room = passes * per_block
    if not mapping.items and _bytes(schedule.staged) * room + REDUCTION_BYTES > device.shared_bytes // resident:
        raise ScheduleError("the blocks' parts of a row do not fit into shared memory", where)
    launched = min(slots // mapping.row_blocks, domain.rows) * mapping.row_blocks
    shared = replace(schedule, row_room=room, resident=resident, launched=launched)
    return replace(shared, ahead=prefetches_rows(shared, device, LEAST_TURNS))


def _bytes(staged: tuple[Staged, ...]) -> int:
    """Of one column of the staged values."""
    return sum(s.node.type.dtype.compute.size for s in staged if s.instead_of is None)
