"""Rule: reductions that keep the last axis; threads next to each other own columns next to each other."""

from __future__ import annotations

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.reductions import keeps_last_axis
from tf_stitch.ir.sizes import Size, ceil_div
from tf_stitch.planning.stitch_plan import Pattern
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, Rule, ThreadMapping
from tf_stitch.schedule.vector_width import vector_width

CPU_SUMS = 256
"""Sums of a CPU task that the compiler keeps in the registers of AVX-512. Tuning found it: with twice as many a column
sum of 4000x4096 took 1.9 times as long."""
LEAST_CPU_TILE = 64
GPU_ACROSS = 32
GPU_THREADS = 256
USUAL_ACROSS, MANY_ROWS, SECTOR_BYTES = 8, 8, 32
"""Threads side by side, and bytes, of the narrowest tile of a row: the first, but where a thread would take more than
so many rows. On an H200 the second stage of batch norm's sums, 1024x256 three times, took 11 us with 128 bytes:
few blocks, whose threads took 32 rows in turn."""


def propose_column(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    """The column schedule.

    Raises:
        ScheduleError: a reduction that does not keep its last axis, or different extents.
    """
    reductions = [n for n in pattern.nodes if n.category is Category.REDUCTION]
    if not reductions:
        raise ScheduleError("no reduction")
    for node in reductions:
        if not keeps_last_axis(node):
            raise ScheduleError(f"{node.kind.value} reduces its last axis", node.loc)
    extents = {(n.type.numel, n.operands[0].type.numel, n.operands[0].type.dims[-1]) for n in reductions}
    if len(extents) > 1:
        raise ScheduleError("reductions of different extents")
    kept, elements, inner = extents.pop()
    domain = Domain(kept, elements // max(kept, 1))
    outer = kept // max(inner, 1)
    if device.is_gpu:
        vector = vector_width(pattern, inner, aligned)
        across = _threads_for(ceil_div(inner, vector), GPU_ACROSS)
        least = ceil_div(SECTOR_BYTES, vector * reductions[0].operands[0].type.dtype.size)
        while across > least and outer * ceil_div(inner, across * vector) < device.processors and (
                across > USUAL_ACROSS or domain.cols * across > MANY_ROWS * GPU_THREADS):
            across //= 2  # narrower tiles: more blocks, and fewer rows for each thread
        down = _threads_for(domain.cols, GPU_THREADS // across)
        mapping = ThreadMapping(outer * ceil_div(inner, across * vector), across * down, across, down, vector, 0)
    else:
        tile = max(CPU_SUMS // len(reductions), LEAST_CPU_TILE)
        tile = tile if isinstance(inner, Size) else min(inner, tile)
        mapping = ThreadMapping(outer * ceil_div(inner, tile), 1, 1, 1, tile, 0)
    return [KernelSchedule(Rule.COLUMN, pattern, reductions[0], domain, mapping)]


def _threads_for(n: int, most: int) -> int:
    """A power of two that covers n, up to `most`."""
    return most if isinstance(n, Size) else min(most, 1 << max(0, (n - 1).bit_length()))
