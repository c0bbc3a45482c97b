"""The levels of a template as the numbers of a family's slots."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tf_stitch.compiler.tilings import extents_of, layout_of, op_dims
from tf_stitch.errors import ScheduleError
from tf_stitch.families.family import LOOP, Slot
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.templates import Level, LevelKind, Tiling

LOOPS = ("items", "steps")
COUNTED = ("grid", "steps")
"""Slots whose extent is what the others leave."""
OPEN = None
"""The extent of other levels without a number, and of levels missing beside a CTA or WARP without one: the family
decides."""


def read_tilings(dims: Sequence[Tiling], schedule: KernelSchedule) -> dict[str, int | None]:
    """The extent of every slot of the schedule's family, those of grids and steps by dimension ("grid 0"), under
    "warp" 1 where rows are WARP's, else 0, and under "cluster" 1 where blocks that share a row are CLUSTER's, else 0.

    A tiling may be given for each dimension of the domain, or of the dominant; neighbouring ones are then folded.

    Raises:
        ScheduleError: another number of dimensions, or a level that the family does not have there.
    """
    layout, where = layout_of(schedule), schedule.dominant.loc
    if len(dims) != len(layout):
        dims = _folded(dims, schedule)
    kinds = {level.kind for dim in dims for level in dim}
    found: dict[str, int | None] = {"warp": int(LevelKind.WARP in kinds), "cluster": int(LevelKind.CLUSTER in kinds)}
    for number, (tiling, slots) in enumerate(zip(dims, layout, strict=True)):
        placed = _placed(tiling, slots)
        if placed is None:
            has = "-".join(slot.kind.value for slot in slots)
            given = "-".join(map(str, tiling))
            raise ScheduleError(f"{given}: dimension {number} of a {schedule.family} has the levels {has}", where)
        rule_decides = any(level.extent is None and level.kind in (LevelKind.CTA, LevelKind.WARP) for level in tiling)
        for slot, level in placed.items():
            if level is None:
                extent = OPEN if rule_decides or slot.name in COUNTED else 1
            elif level.extent is None:
                extent = LOOP if slot.name in LOOPS else OPEN
            else:
                extent = level.extent
            found[slot.name if slot.name not in COUNTED else f"{slot.name} {number}"] = extent
    return found


def _placed(tiling: Tiling, slots: Sequence[Slot]) -> dict[Slot, Level | None] | None:
    """The level of each slot, both in their order; None if one has no place."""
    placed: dict[Slot, Level | None] = dict.fromkeys(slots)
    at = 0
    for level in tiling:
        while at < len(slots) and not _takes(slots[at], level):
            at += 1
        if at == len(slots):
            return None
        placed[slots[at]] = level
        at += 1
    return placed


def _takes(slot: Slot, level: Level) -> bool:
    also = {"at_once": LevelKind.WARP, "row_blocks": LevelKind.CLUSTER}
    return level.kind in (slot.kind, also.get(slot.name))


def _folded(dims: Sequence[Tiling], schedule: KernelSchedule) -> list[Tiling]:
    """Tilings of the dominant's dimensions as those of the domain's."""
    sizes, extents, where = op_dims(schedule), extents_of(schedule), schedule.dominant.loc
    if len(dims) != len(sizes):
        raise ScheduleError(f"{len(dims)} dimensions: {schedule.dominant.kind.value} has {len(sizes)}, "
                            f"the kernel {len(extents)}", where)
    folded, at = list[Tiling](), 0
    for number, extent in enumerate(extents):
        first, last = at, number == len(extents) - 1
        while at < len(sizes) and (last or at == first or math.prod(sizes[first:at]) < extent):
            at += 1
        if math.prod(sizes[first:at]) != extent:
            raise ScheduleError(f"dimensions {sizes} do not fold to those of the kernel, {extents}", where)
        folded.append(_merged([_of_dim(dims[i], sizes[i]) for i in range(first, at)]))
    return folded


def _of_dim(tiling: Tiling, size: int) -> Tiling:
    """A dimension that is WARP's alone has a warp for each element."""
    return (Level(LevelKind.WARP, size),) if tiling == (Level(LevelKind.WARP),) else tiling


def _merged(tilings: Sequence[Tiling]) -> Tiling:
    """Levels of one kind that follow each other as one."""
    merged: list[Level] = []
    for level in (level for tiling in tilings for level in tiling):
        if merged and merged[-1].kind is level.kind:
            both = (merged[-1].extent, level.extent)
            product = None if both[0] is None or both[1] is None else both[0] * both[1]
            merged[-1] = Level(level.kind, product)
        else:
            merged.append(level)
    return tuple(merged)
