"""Rule: one running sum and the element-wise producers of what it sums."""

from __future__ import annotations

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.symbolic_dims import SymbolicDim, ceil_div
from tf_stitch.planning.stitch_plan import Pattern
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, ThreadMapping

NAME = "scan"


def propose_scan(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    """The scan schedule.

    Raises:
        ScheduleError: anything but one scan whose result is the only output.
    """
    scans = [n for n in pattern.nodes if n.category is Category.SCAN]
    if len(scans) != 1 or pattern.outputs != (scans[0],):
        raise ScheduleError("not a single scan")
    node = scans[0]
    cols = node.type.dims[-1]
    rows = node.type.numel // max(cols, 1)
    most = 128 if isinstance(rows, SymbolicDim) else min(128, max(device.warp, 1 << max(0, (rows - 1).bit_length())))
    threads = most if device.simt else 1
    mapping = ThreadMapping(ceil_div(rows, threads), threads, 1, threads, 1, 0, warp=device.warp)
    return [KernelSchedule(NAME, pattern, node, Domain(rows, cols), mapping)]
