"""Rule: element-wise patterns around a transpose that moves the contiguous axis; a tile goes through block memory so
that both reads and writes run along memory."""

from __future__ import annotations

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import TransposeAttrs
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.symbolic_dims import SymbolicDim, ceil_div
from tf_stitch.planning.stitch_plan import Pattern
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, Scheme, Staged, ThreadMapping

NAME = "transpose"

TILE = 32
GPU_THREADS = 256
SHORTEST_AXIS = 8
"""Elements of either axis below which a tile is mostly empty."""


def propose_transpose(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    """The tiled schedule.

    Raises:
        ScheduleError: no such transpose, a reduction or scan, or outputs of another size than the transposed value.
    """
    if any(n.category in (Category.REDUCTION, Category.SCAN) for n in pattern.nodes):
        raise ScheduleError("a reduction or scan")
    moving = [n for n in pattern.nodes if isinstance(n.attrs, TransposeAttrs) and n.attrs.perm[-1] != n.type.rank - 1]
    if not moving:
        raise ScheduleError("no transpose of the contiguous axis")
    dominant = moving[0]
    if any(n.type.numel != dominant.type.numel for n in pattern.outputs):
        raise ScheduleError("outputs of another size than the transposed value")
    across, down = tile_axes(dominant)
    dims = dominant.type.dims
    if any(not isinstance(dims[a], SymbolicDim) and dims[a] < SHORTEST_AXIS for a in (across, down)):
        raise ScheduleError("an axis too short for tiles")
    tiles = ceil_div(dims[across], TILE) * ceil_div(dims[down], TILE)
    outer = dominant.type.numel // (dims[across] * dims[down])
    threads = GPU_THREADS if device.simt else 1
    mapping = ThreadMapping(outer * tiles, threads, min(threads, TILE), TILE, 1, 0, warp=device.warp)
    return [KernelSchedule(NAME, pattern, dominant, Domain(outer * dims[down], dims[across]), mapping,
                           (Staged(dominant, Scheme.REGIONAL),))]


def tile_axes(node: Node) -> tuple[int, int]:
    """Axes of a transpose's result: the one that is contiguous in the result, and in its operand."""
    assert isinstance(node.attrs, TransposeAttrs)
    last = node.type.rank - 1
    return last, node.attrs.perm.index(last)
