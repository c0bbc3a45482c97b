"""How far kernels reuse values: the steps of AStitch's ablation (section 6.2, Table 4)."""

from __future__ import annotations

from collections import Counter
from enum import Enum

from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.planning.pattern import Pattern
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
    reduced: set[Node] = set()  # and what lies in memory as they do
    for node in pattern.nodes:
        if any(operand in reduced for operand in node.operands) and node.kind is not OpKind.RESHAPE:
            raise ScheduleError(f"a reduction's value leaves its kernel (reuse: {reuse.value})", node.loc)
        if node.category is Category.REDUCTION or any(operand in reduced for operand in node.operands):
            reduced.add(node)
