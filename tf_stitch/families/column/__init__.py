"""Reductions that keep the last axis: threads next to each other own columns next to each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.candidates import BLOCKS, powers, vectors
from tf_stitch.families.column.lower import lower_column
from tf_stitch.families.column.propose import NAME, propose_column
from tf_stitch.families.family import (
    ACROSS,
    GRID,
    STEPS,
    TILE,
    VECTOR,
    KernelFamily,
    Request,
    Slot,
    Tilings,
    by_threads,
    mapped,
    whole_rows,
)
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.schedule.kernel_schedule import KernelSchedule, ThreadMapping
from tf_stitch.templates import LevelKind


def _inner(schedule: KernelSchedule) -> int:
    """Columns that lie next to each other."""
    return schedule.dominant.operands[0].type.dims[-1]


def _extents(schedule: KernelSchedule) -> tuple[int, ...]:
    """What is reduced, then what is kept; an outer dimension that is kept stands before them."""
    inner, domain = _inner(schedule), schedule.domain
    outer = domain.rows // max(inner, 1)
    return (domain.cols, inner) if outer == 1 else (outer, domain.cols, inner)


def _retile(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    m, inner = schedule.mapping, _inner(schedule)
    across, vector = request.extent("row_threads", m.row_threads), request.extent("vector", m.vector)
    down = request.extent("down", m.threads // m.row_threads)
    sums = [n for n in schedule.pattern.nodes if n.category is Category.REDUCTION]
    if down > 1 and sum(n.type.dtype.compute.size for n in sums) * across * down * vector > device.shared_bytes:
        raise ScheduleError("the block's sums do not fit into its memory", schedule.dominant.loc)
    outer = schedule.domain.rows // max(inner, 1)
    return mapped(schedule, threads=across * down, row_threads=across, rows_per_block=down, vector=vector,
                  grid=outer * ceil_div(inner, across * vector))


def _outer_level(schedule: KernelSchedule) -> str:
    return "GRID," if schedule.domain.rows > _inner(schedule) else ""


def _candidates(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    outer = _outer_level(schedule)
    for vector in vectors(schedule):
        for across in powers(8, min(256, 2 * ceil_div(_inner(schedule), vector) - 1)):
            for block in BLOCKS:
                if across <= block:
                    yield f"*[{outer}THREAD-CTA_{block // across},GRID-CTA_{across}-THREAD_{vector}];"


def _retile_task(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    inner = _inner(schedule)
    tile = min(request.extent("tile", schedule.mapping.vector), inner)
    return mapped(schedule, vector=tile, grid=schedule.domain.rows // inner * ceil_div(inner, tile))


def _task_candidates(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    outer = _outer_level(schedule)
    for tile in powers(32, min(4096, 2 * _inner(schedule) - 1)):
        yield f"*[{outer}THREAD,GRID-THREAD_{tile}];"


_BLOCKS = Tilings(((STEPS, Slot(LevelKind.CTA, "down")), (GRID, ACROSS, VECTOR)), _retile, _candidates)
_TASKS = Tilings(((STEPS,), (GRID, TILE)), _retile_task, _task_candidates, lambda schedule: schedule.mapping.vector)


def _with_threads(schedule: KernelSchedule, threads: int) -> ThreadMapping:
    m = schedule.mapping
    whole_rows(schedule, threads)
    return replace(m, threads=threads, rows_per_block=threads // m.row_threads)


# In place at the index of the column, whose threads have passed a barrier before the one that has the sum writes.
COLUMN = KernelFamily(NAME, propose_column, lower_column, by_threads(_BLOCKS, _TASKS), _extents, in_place=True,
                      along=lambda domain: domain.rows, with_threads=_with_threads)
