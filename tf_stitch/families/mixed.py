"""Reductions of rows and, over the same elements, sums across rows."""

from __future__ import annotations

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
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.lowering.mixed import lower_mixed
from tf_stitch.schedule.kernel_schedule import KernelSchedule, ThreadMapping
from tf_stitch.schedule.prefetch import prefetches_rows
from tf_stitch.schedule.rules.mixed_reduction import LEAST_ROWS, NAME, propose_mixed
from tf_stitch.schedule.rules.row_reduction import MAX_THREADS


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
    return replace(m, threads=threads, row_threads=threads, items=ceil_div(schedule.domain.cols, threads * m.vector))


MIXED = KernelFamily(NAME, propose_mixed, lower_mixed, by_threads(_BLOCKS, _TASKS), with_threads=_with_threads)
