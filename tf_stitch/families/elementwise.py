"""Elements, each by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.families.candidates import BLOCKS, vectors
from tf_stitch.families.family import (
    GRID,
    ITEMS,
    STEPS,
    TILE,
    VECTOR,
    KernelFamily,
    Request,
    Slot,
    Tilings,
    fixed,
    mapped,
)
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.lowering.elementwise import lower_elementwise
from tf_stitch.schedule.kernel_schedule import KernelSchedule, ThreadMapping
from tf_stitch.schedule.rules.elementwise import NAME, propose_elementwise
from tf_stitch.schedule.templates import LevelKind

CHUNKS = tuple(1 << n for n in range(9, 18))
"""Elements of a CPU's task that are tried."""


def _in_rows(schedule: KernelSchedule) -> bool:
    """Whether a task is a row."""
    return not schedule.in_blocks and schedule.domain.rows != 1


def _extents(schedule: KernelSchedule) -> tuple[int, ...]:
    rows, cols = schedule.domain.rows, schedule.domain.cols
    return (rows, cols) if _in_rows(schedule) else (cols,)


def _retile(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    m = schedule.mapping
    threads, vector = request.extent("threads", m.threads), request.extent("vector", m.vector)
    items = request.extent("items", m.items) or m.items
    return mapped(schedule, threads=threads, vector=vector, items=items,
                  grid=ceil_div(schedule.domain.cols, threads * vector * items))


def _candidates(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    for vector in vectors(schedule):
        for items in (1, 2, 4, 8):
            for block in BLOCKS:
                yield f"*[GRID-THREAD_{items}-CTA_{block}-THREAD_{vector}];"


def _retile_task(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    chunk = min(request.extent("tile", schedule.mapping.items), schedule.domain.cols)
    return mapped(schedule, items=chunk, grid=ceil_div(schedule.domain.cols, chunk))


def _task_candidates(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    yield from (f"*[GRID-THREAD_{chunk}];" for chunk in CHUNKS if chunk < 2 * schedule.domain.cols)


_BLOCKS = Tilings(((GRID, ITEMS, Slot(LevelKind.CTA, "threads", always=True), VECTOR),), _retile, _candidates)
_TASKS = Tilings(((GRID, TILE),), _retile_task, _task_candidates)
_ROWS = Tilings(((GRID,), (STEPS,)), fixed)


def _tilings(schedule: KernelSchedule) -> Tilings:
    if schedule.in_blocks:
        return _BLOCKS
    return _ROWS if _in_rows(schedule) else _TASKS


def _with_threads(schedule: KernelSchedule, threads: int) -> ThreadMapping:
    m = schedule.mapping
    return replace(m, threads=threads, grid=ceil_div(schedule.domain.cols, threads * m.vector * m.items))


def _with_items(schedule: KernelSchedule, items: int) -> KernelSchedule:
    more = replace(schedule, mapping=replace(schedule.mapping, items=items))
    return replace(more, mapping=_with_threads(more, more.mapping.threads))


ELEMENTWISE = KernelFamily(NAME, propose_elementwise, lower_elementwise, _tilings, _extents, in_place=True,
                           with_threads=_with_threads, with_items=_with_items)
