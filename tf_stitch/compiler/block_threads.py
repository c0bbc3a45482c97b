"""A schedule for blocks of other threads, or of more work: kernels that share a launch have equal blocks, those that
share blocks have what is left of them."""

from __future__ import annotations

from dataclasses import replace

from tf_stitch.errors import ScheduleError
from tf_stitch.families.registry import family_of
from tf_stitch.schedule.kernel_schedule import KernelSchedule


def with_threads(schedule: KernelSchedule, threads: int) -> KernelSchedule:
    """The schedule with blocks of `threads` threads, whole warps.

    Raises:
        ScheduleError: its family has no such blocks.
    """
    if threads == schedule.mapping.threads:
        return schedule
    resized = family_of(schedule).with_threads
    if resized is None:
        raise ScheduleError(f"{schedule.family} has no blocks of {threads} threads")
    return replace(schedule, mapping=resized(schedule, threads))


def with_items(schedule: KernelSchedule, items: int) -> KernelSchedule:
    """The schedule with threads that make `items` accesses each, under way together, where its family has such."""
    more = family_of(schedule).with_items
    return schedule if more is None else more(schedule, items)
