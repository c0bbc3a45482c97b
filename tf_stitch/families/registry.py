"""The list of kernel families. Another one is a module beside the others, and its name here."""

from __future__ import annotations

from tf_stitch.families.attention import ATTENTION
from tf_stitch.families.attention_gradient import ATTENTION_GRADIENT
from tf_stitch.families.column import COLUMN
from tf_stitch.families.elementwise import ELEMENTWISE
from tf_stitch.families.family import KernelFamily
from tf_stitch.families.matmul import MATMUL
from tf_stitch.families.matmul_in_tasks import MATMUL_IN_TASKS
from tf_stitch.families.mixed import MIXED
from tf_stitch.families.register_windows import REGISTER_WINDOWS
from tf_stitch.families.row import ROW
from tf_stitch.families.row_update import row_update
from tf_stitch.families.row_values import ROW_VALUES
from tf_stitch.families.scan import SCAN
from tf_stitch.families.scatter import SCATTER
from tf_stitch.families.transpose import TRANSPOSE
from tf_stitch.families.windows import WINDOWS
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.schedule.kernel_schedule import KernelSchedule

_OTHERS: tuple[KernelFamily, ...] = (
    ATTENTION,
    ATTENTION_GRADIENT,
    MATMUL,
    MATMUL_IN_TASKS,
    SCAN,
    SCATTER,
    WINDOWS,  # as the next one before column, which asks of every element where it lies
    REGISTER_WINDOWS,
    COLUMN,  # before row: rows of a reduction that keeps the last axis are strided, which is right but slow
    MIXED,
    ROW,
    ROW_VALUES,
    TRANSPOSE,
    ELEMENTWISE,  # last: it takes any single node that is no reduction or scan
)

FAMILIES: tuple[KernelFamily, ...] = (*_OTHERS, row_update(_OTHERS))  # takes none that others do
"""In the order they are asked."""


def family_of(schedule: KernelSchedule) -> KernelFamily:
    """The family that made a schedule that is not cooperative."""
    return next(family for family in FAMILIES if family.name == schedule.family)


def lower(schedule: KernelSchedule) -> LoweredKernel:
    """The kernel of a schedule; ScheduleError if the pattern turns out not to be local to it."""
    return family_of(schedule).lower(schedule)


def adds_in_one_order(schedule: KernelSchedule) -> bool:
    """Whether a kernel adds in the same order whatever its tiles, and whatever else it computes."""
    return any(family.one_order for family in FAMILIES if family.name == schedule.family)
