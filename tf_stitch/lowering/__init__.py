"""Schedule + graph -> kernel IR."""

from __future__ import annotations

from tf_stitch.lowering.attention import lower_attention
from tf_stitch.lowering.column import lower_column
from tf_stitch.lowering.elementwise import lower_elementwise
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.lowering.mixed import lower_mixed
from tf_stitch.lowering.row import lower_row
from tf_stitch.lowering.scan import lower_scan
from tf_stitch.lowering.transpose import lower_transpose
from tf_stitch.schedule.kernel_schedule import KernelSchedule, Rule

_LOWER = {Rule.ROW: lower_row, Rule.COLUMN: lower_column, Rule.MIXED: lower_mixed, Rule.TRANSPOSE: lower_transpose,
          Rule.ELEMENTWISE: lower_elementwise, Rule.SCAN: lower_scan, Rule.ATTENTION: lower_attention}


def lower(schedule: KernelSchedule) -> LoweredKernel:
    """The kernel of a schedule; ScheduleError if the pattern turns out not to be local to it."""
    return _LOWER[schedule.rule](schedule)
