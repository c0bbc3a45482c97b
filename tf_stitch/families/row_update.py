"""Rows of a tensor that are written where it lies, by the kernel that computes them. Another family says how it
computes them; what is different is where its stores go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.family import GRID, STEPS, KernelFamily, Tilings, fixed
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import AxisAttrs, Combine, ScatterAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.lowering.row_updates import RowUpdate, with_row_updates
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.kernel_schedule import KernelSchedule

NAME = "row_update"

_TILINGS = Tilings(((GRID,), (STEPS,)), fixed)


def row_update(families: Sequence[KernelFamily]) -> KernelFamily:
    """The family of kernels that are others' but for where rows go.

    Args:
        families: the others, in the order in which they are asked.
    """

    def propose(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
        """Schedules of what computes the rows.

        Raises:
            ScheduleError: no scatter of rows alone, or one whose rows are not computed here, for it alone.
        """
        if not device.simt:
            raise ScheduleError("a device where tasks have rows of their own")
        rest, _ = without_scatters(pattern)
        found: list[KernelSchedule] = []
        for family in (family for family in families if not family.matmuls):
            try:
                schedules = family.propose(rest, device, aligned)
            except ScheduleError:
                continue
            found += [replace(one, family=NAME, pattern=pattern, rows_by=family.name) for one in schedules]
        return found

    def lower(schedule: KernelSchedule) -> LoweredKernel:
        """The other family's kernel, its stores of rows sent to where these lie.

        Raises:
            ScheduleError: the other family refuses, or the stores cannot go there.
        """
        rest, updates = without_scatters(schedule.pattern)
        family = next(family for family in families if family.name == schedule.rows_by)
        inner = replace(schedule, family=family.name, pattern=rest, rows_by="")
        return with_row_updates(family.lower(inner), schedule, updates)

    return KernelFamily(NAME, propose, lower, lambda schedule: _TILINGS)


def without_scatters(pattern: Pattern) -> tuple[Pattern, list[RowUpdate]]:
    """What computes the rows of a pattern's scatters, and where these go.

    Raises:
        ScheduleError: see `propose`.
    """
    updates: list[RowUpdate] = []
    scatters = [n for n in pattern.nodes if n.category is Category.SCATTER]
    if not scatters:
        raise ScheduleError("no scatter")
    for scatter in scatters:
        if not _is_of_rows_alone(scatter) or pattern.holds(scatter.operands[0]):
            raise ScheduleError("a scatter that does not just write rows", scatter.loc)
        updates += _pieces(scatter, pattern)
    values = [update.value for update in updates]
    if len(set(values)) < len(values) or not set(values).isdisjoint(pattern.outputs):
        raise ScheduleError("rows that others read, too", scatters[0].loc)
    outputs = (set(pattern.outputs) - set(scatters)) | set(values)
    needed, pending = set[Node](), list(outputs)
    while pending:
        node = pending.pop()
        if node not in needed and pattern.holds(node):
            needed.add(node)
            pending += node.operands
    rest = Pattern(tuple(n for n in pattern.nodes if n in needed), tuple(n for n in pattern.nodes if n in outputs),
                   pattern.free)
    if needed & set(scatters):
        raise ScheduleError("an update that the kernel itself reads", scatters[0].loc)
    return rest, updates


def _is_of_rows_alone(scatter: Node) -> bool:
    attrs = scatter.attrs
    return isinstance(attrs, ScatterAttrs) and attrs.rows_only and attrs.combine is Combine.SET


def _pieces(scatter: Node, pattern: Pattern) -> list[RowUpdate]:
    """Values that, one behind the other, are what is written."""
    whole, members = scatter.operands[2], set(pattern.nodes)
    parts: Sequence[Node] = (whole,)
    if isinstance(whole.attrs, AxisAttrs) and whole.kind is OpKind.CONCAT and whole.attrs.axis == 0 \
            and whole in members and whole not in pattern.outputs:
        parts = whole.operands
    firsts = accumulate((int(part.type.dims[0]) for part in parts), initial=0)
    found = []
    for part, first in zip(parts, firsts, strict=False):
        value = part
        while value not in members and value in pattern.free and value.kind is OpKind.RESHAPE:
            value = value.operands[0]  # the same in memory
        if value not in members:
            raise ScheduleError("rows that another kernel computes", scatter.loc)
        found.append(RowUpdate(value, scatter, first))
    return found
