"""Pattern -> kernel: the first schedule of the first rule that can be lowered."""

from __future__ import annotations

from collections.abc import Iterator

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError, TooManyCopiesError
from tf_stitch.ir.op_kinds import Category
from tf_stitch.lowering import lower
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.planning.stitch_plan import Pattern, attention_of
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.schedule.rules import RULES
from tf_stitch.schedule.rules.attention import propose_attention


def compile_pattern(pattern: Pattern, device: DeviceSpec, aligned: bool = True) -> LoweredKernel:
    """Schedules and lowers a pattern.

    Args:
        aligned: every buffer starts at a multiple of 16 bytes.

    Raises:
        ScheduleError: no rule takes it; the message holds every rule's reason.
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
    """The first schedule that a rule proposes, if any; it may still turn out that it cannot be lowered."""
    return next(_schedules(pattern, device, aligned, []), None)


def _schedules(pattern: Pattern, device: DeviceSpec, aligned: bool, reasons: list[str]) -> Iterator[KernelSchedule]:
    attention = attention_of(pattern)
    if attention is not None:
        yield from propose_attention(pattern, attention, device, aligned)
        return
    matmul = next((n for n in pattern.nodes if n.category is Category.CONTRACTION), None)
    if matmul is not None:
        raise ScheduleError("a product is a library call of its own", matmul.loc)
    for rule in RULES:
        try:
            yield from rule(pattern, device, aligned)
        except ScheduleError as error:
            reasons.append(error.message)
