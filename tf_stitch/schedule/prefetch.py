"""Which blocks copy the next row while they work on one (see lowering.prefetch)."""

from __future__ import annotations

from tf_stitch.device.spec import ASYNC_COPY_BYTES, DeviceSpec
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.schedule.phases import prefetched_values

REDUCTION_BYTES = 4096
"""Shared memory that reductions over several warps take beside the arrays."""


def prefetches_rows(schedule: KernelSchedule, device: DeviceSpec, least_rows: int) -> bool:
    """Whether a block keeps rows in registers and takes enough of them, of whole copies, on a device that can.

    Args:
        least_rows: rows of a block, or turns of blocks that share rows, from which it pays.
    """
    mapping = schedule.mapping
    copied = prefetched_values(schedule.pattern, [s.node for s in schedule.staged])
    rows = ceil_div(mapping.grid, schedule.launched) if schedule.launched else mapping.rows_per_block
    room = device.shared_bytes // max(schedule.resident, 1) - REDUCTION_BYTES
    return (device.async_copies and mapping.items > 0 and bool(copied) and rows >= least_rows
            and all(n.type.dtype.size * mapping.vector == ASYNC_COPY_BYTES for n in copied)
            and len(copied) * mapping.items * mapping.threads * ASYNC_COPY_BYTES <= room)
