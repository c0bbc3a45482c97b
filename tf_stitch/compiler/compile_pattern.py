"""Pattern -> kernel: the first schedule of the first family that can be lowered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError, TooManyCopiesError
from tf_stitch.families.registry import lower
from tf_stitch.ir.op_kinds import Category
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.targets.registry import target_of


def compile_pattern(pattern: Pattern, device: DeviceSpec, aligned: bool = True) -> LoweredKernel:
    """Schedules and lowers a pattern.

    Args:
        aligned: every buffer starts at a multiple of 16 bytes.

    Raises:
        ScheduleError: no family takes it; the message holds the reason of each.
    """
    reasons: list[str] = []
    for schedule in _schedules(pattern, device, aligned, reasons):
        try:
            return lower(schedule)
        except TooManyCopiesError:
            raise
        except ScheduleError as error:
            reasons.append(error.message)
    raise ScheduleError("; ".join(dict.fromkeys(reasons)), pattern.nodes[0].loc)


def first_schedule(pattern: Pattern, device: DeviceSpec, aligned: bool = True) -> KernelSchedule | None:
    """The first schedule that a family proposes, if any; it may still turn out that it cannot be lowered."""
    return next(_schedules(pattern, device, aligned, []), None)


def _schedules(pattern: Pattern, device: DeviceSpec, aligned: bool, reasons: list[str]) -> Iterator[KernelSchedule]:
    matmuls = any(n.category is Category.CONTRACTION for n in pattern.nodes)
    for family in target_of(device).families:
        if family.matmuls is matmuls:
            try:
                for schedule in family.propose(pattern, device, aligned):
                    yield replace(schedule, early_bytes=device.profile.sizes.early_bytes)
            except ScheduleError as error:
                reasons.append(error.message)
