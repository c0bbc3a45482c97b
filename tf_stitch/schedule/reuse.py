"""How far kernels reuse values: the steps of AStitch's ablation (section 6.2, Table 4)."""

from __future__ import annotations

from collections import Counter
from enum import Enum

from tf_stitch.errors import ScheduleError
from tf_stitch.ir.op_kinds import Category
from tf_stitch.planning.stitch_plan import Pattern
from tf_stitch.schedule.phases import reduction_depths


class Reuse(Enum):
    """MAPPING: what a reduction gives leaves its kernel, as in XLA's fusions; threads are mapped as ever (ATM).
    HIERARCHY: other threads and blocks of the kernel use it, through registers, shared and device memory (HDM).
    MERGED: reductions that do not need each other share a pass, too: dominants are merged (all of AStitch)."""

    MAPPING = "mapping"
    HIERARCHY = "hierarchy"
    MERGED = "merged"


def require_reuse(pattern: Pattern, reuse: Reuse) -> None:
    """Raises ScheduleError where a kernel of `pattern` would reuse more than is allowed."""
    if reuse is Reuse.MERGED:
        return
    reductions = [n for n in pattern.nodes if n.category is Category.REDUCTION]
    depths = reduction_depths(pattern)
    if any(times > 1 for times in Counter(depths[n] for n in reductions).values()):
        raise ScheduleError(f"reductions are not merged (reuse: {reuse.value})", reductions[0].loc)
    if reuse is Reuse.HIERARCHY:
        return
    used = {operand for node in pattern.nodes for operand in node.operands}
    for node in reductions:
        if node in used:
            raise ScheduleError(f"a reduction's value leaves its kernel (reuse: {reuse.value})", node.loc)
