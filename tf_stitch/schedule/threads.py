"""A schedule for blocks of more threads, or of more work: kernels that share a launch have equal blocks."""

from __future__ import annotations

from dataclasses import replace

from tf_stitch.errors import ScheduleError
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.schedule.kernel_schedule import KernelSchedule, Rule, ThreadMapping


def with_threads(schedule: KernelSchedule, threads: int) -> KernelSchedule:
    """The schedule with blocks of `threads` threads, a power of two and no fewer than it has.

    Raises:
        ScheduleError: its rule has no such blocks.
    """
    mapping = schedule.mapping
    if threads == mapping.threads:
        return schedule
    if threads < mapping.threads or schedule.rule not in _REMAP:
        raise ScheduleError(f"{schedule.rule.value} has no blocks of {threads} threads")
    return replace(schedule, mapping=_REMAP[schedule.rule](schedule, threads))


def with_items(schedule: KernelSchedule, items: int) -> KernelSchedule:
    """An elementwise schedule whose threads make `items` accesses each, under way together; others as they are."""
    if schedule.rule is not Rule.ELEMENTWISE:
        return schedule
    mapping = replace(schedule.mapping, items=items)
    return replace(schedule, mapping=_elementwise(replace(schedule, mapping=mapping), mapping.threads))


def _elementwise(schedule: KernelSchedule, threads: int) -> ThreadMapping:
    m = schedule.mapping
    return replace(m, threads=threads, grid=ceil_div(schedule.domain.cols, threads * m.vector * m.items))


def _row(schedule: KernelSchedule, threads: int) -> ThreadMapping:
    m = schedule.mapping
    rows = threads // m.row_threads * m.waves
    return replace(m, threads=threads, rows_per_block=rows, grid=ceil_div(schedule.domain.rows, rows))


def _column(schedule: KernelSchedule, threads: int) -> ThreadMapping:
    m = schedule.mapping
    return replace(m, threads=threads, rows_per_block=threads // m.row_threads)


def _mixed(schedule: KernelSchedule, threads: int) -> ThreadMapping:
    m = schedule.mapping
    return replace(m, threads=threads, row_threads=threads, items=ceil_div(schedule.domain.cols, threads * m.vector))


_REMAP = {Rule.ELEMENTWISE: _elementwise, Rule.ROW: _row, Rule.COLUMN: _column, Rule.MIXED: _mixed}
