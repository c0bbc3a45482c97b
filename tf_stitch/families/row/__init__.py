"""Reductions of equal rows, with what is element-wise around them."""

from __future__ import annotations

from dataclasses import replace

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.families.family import (
    ACROSS,
    GRID,
    ITEMS,
    STEPS,
    VECTOR,
    KernelFamily,
    Request,
    Slot,
    Tilings,
    by_threads,
    whole_rows,
)
from tf_stitch.families.row.candidates import row_candidates, task_candidates
from tf_stitch.families.row.lower import lower_row
from tf_stitch.families.row.propose import NAME, propose_row
from tf_stitch.families.row.tiling import tile_rows
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.schedule.kernel_schedule import KernelSchedule, ThreadMapping
from tf_stitch.templates import LevelKind


def _retile(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    return tile_rows(schedule, request.numbers, request.wants, device)


_BLOCKS = Tilings(((GRID, Slot(LevelKind.THREAD, "waves"), Slot(LevelKind.CTA, "at_once")),
                   (ITEMS, Slot(LevelKind.THREAD, "beyond"), Slot(LevelKind.GRID, "row_blocks"), ACROSS, VECTOR)),
                  _retile, row_candidates)
_TASKS = Tilings(((GRID,), (STEPS,)), _retile, task_candidates)


def _with_threads(schedule: KernelSchedule, threads: int) -> ThreadMapping:
    m = schedule.mapping
    whole_rows(schedule, threads)
    rows = threads // m.row_threads * m.waves
    return replace(m, threads=threads, rows_per_block=rows, grid=ceil_div(schedule.domain.rows, rows))


ROW = KernelFamily(NAME, propose_row, lower_row, by_threads(_BLOCKS, _TASKS), along=lambda domain: domain.cols,
                   with_threads=_with_threads)
