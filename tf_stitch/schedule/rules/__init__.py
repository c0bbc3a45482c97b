"""Schedule rules in the order they are asked; each proposes schedules or says why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.planning.stitch_plan import Pattern
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.schedule.rules.column_reduction import propose_column
from tf_stitch.schedule.rules.elementwise import propose_elementwise
from tf_stitch.schedule.rules.mixed_reduction import propose_mixed
from tf_stitch.schedule.rules.row_reduction import propose_row
from tf_stitch.schedule.rules.scan import propose_scan
from tf_stitch.schedule.rules.transpose import propose_transpose

Rule: TypeAlias = Callable[[Pattern, DeviceSpec, bool], list[KernelSchedule]]

# Column before row: rows of a reduction that keeps the last axis are strided, which is right but slow.
# Elementwise is the fallback of single nodes.
RULES: tuple[Rule, ...] = (propose_scan, propose_column, propose_mixed, propose_row, propose_transpose,
                           propose_elementwise)
