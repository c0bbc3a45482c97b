"""Transposes of the contiguous axis, by tiles in memory of the block."""

from __future__ import annotations

from collections.abc import Iterator

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families import family as f
from tf_stitch.families.family import KernelFamily, Request, Slot, Tilings, by_threads, keep, mapped
from tf_stitch.lowering.transpose import lower_transpose
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.schedule.rules.transpose import NAME, TILE, propose_transpose, tile_axes
from tf_stitch.schedule.templates import LevelKind


def _extents(schedule: KernelSchedule) -> tuple[int, ...]:
    """The axes that tiles cover; what is left stands before them."""
    node = schedule.dominant
    across, down = (node.type.dims[axis] for axis in tile_axes(node))
    outer = node.type.numel // max(across * down, 1)
    return (down, across) if outer == 1 else (outer, down, across)


def _retile(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    m = schedule.mapping
    keep(schedule, request, "row_threads", m.row_threads, "elements of a tile's row")
    down = request.extent("down", m.threads // m.row_threads)
    if TILE % down:
        raise ScheduleError(f"{down} rows of a tile of {TILE} at a time", schedule.dominant.loc)
    return mapped(schedule, threads=down * m.row_threads)


def _candidates(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    outer = "GRID," if schedule.dominant.type.rank > 2 else ""
    for down in (4, 8, 16, 32):
        yield f"*[{outer}GRID-THREAD-CTA_{down},GRID-CTA_{TILE}]S;"


def _same_tile(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    keep(schedule, request, "tile", TILE, "elements of a tile's row")
    return schedule


_BLOCKS = Tilings(((f.GRID, f.STEPS, Slot(LevelKind.CTA, "down")), (f.GRID, f.ACROSS)), _retile, _candidates)
_TASKS = Tilings(((f.GRID, f.TILE), (f.GRID, f.TILE)), _same_tile, tile=lambda schedule: TILE)

TRANSPOSE = KernelFamily(NAME, propose_transpose, lower_transpose, by_threads(_BLOCKS, _TASKS), _extents)
