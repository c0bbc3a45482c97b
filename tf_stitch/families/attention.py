"""Attention, its scores in registers: matmuls by tensor cores, keys and values through shared memory."""

from __future__ import annotations

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.family import ACROSS, GRID, ITEMS, STEPS, KernelFamily, Request, Slot, Tilings
from tf_stitch.lowering.attention import lower_attention
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.schedule.rules.attention import NAME, propose_attention
from tf_stitch.schedule.templates import LevelKind


def _retile(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    raise ScheduleError("attention has no template but its own", schedule.dominant.loc)


_TILINGS = Tilings(((GRID, Slot(LevelKind.CTA, "rows_per_block", always=True)), (STEPS, ACROSS, ITEMS)), _retile)

ATTENTION = KernelFamily(NAME, propose_attention, lower_attention, lambda schedule: _TILINGS, matmuls=True)
