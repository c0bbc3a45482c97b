"""Rule: outputs of equal size, each element by itself. Applies to any single node that is no reduction or scan."""

from __future__ import annotations

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.symbolic_dims import SymbolicDim, ceil_div, divides, order
from tf_stitch.planning.stitch_plan import Pattern
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, ThreadMapping
from tf_stitch.schedule.vector_width import vector_width

NAME = "elementwise"

CPU_CHUNK = 4096
"""Elements of a CPU task of a flat domain."""
GPU_THREADS = 256
BUSY = 4
"""One in so many processors has to have a block before a thread takes more than one element."""
ARRAY_REGISTERS = 224
"""Registers of a thread's vectors: of the zoo's kernels all with more spilled, and none with less."""


def propose_elementwise(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    """Schedules from the flattest domain to one of single-axis columns, and as the last resort the flat one again.

    Raises:
        ScheduleError: a reduction or scan in the pattern, or outputs of different sizes.
    """
    if any(n.category in (Category.REDUCTION, Category.SCAN) for n in pattern.nodes):
        raise ScheduleError("a reduction or scan")
    sizes = {n.type.numel for n in pattern.outputs}
    if len(sizes) != 1:
        raise ScheduleError("outputs of different sizes")
    elements = sizes.pop()
    dominant = max(pattern.outputs, key=lambda n: n.type.rank)
    if device.simt:
        vector = _vector(elements, vector_width(pattern, elements, aligned), device)
        widths = [vector >> i for i in range(vector.bit_length())]  # narrower ones where vectors would spill
        return [KernelSchedule(NAME, pattern, dominant, Domain(1, elements),
                               ThreadMapping(ceil_div(elements, GPU_THREADS * width), GPU_THREADS, 1, 1, width, 1,
                                             warp=device.warp),
                               array_registers=ARRAY_REGISTERS if width > 1 else 0) for width in widths]
    columns = _column_counts(pattern, elements) if elements else []
    schedules = [KernelSchedule(NAME, pattern, dominant, Domain(elements // cols, cols),
                                _cpu_mapping(elements // cols, cols, device)) for cols in columns]
    schedules.append(KernelSchedule(NAME, pattern, dominant, Domain(1, elements),
                                    _cpu_mapping(1, elements, device), last_resort=True))
    return schedules


def _vector(elements: int, widest: int, device: DeviceSpec) -> int:
    """Elements that a thread has: fewer where few processors would have a block, but for a lone thread. What it does
    for each of them takes its time one after the other; where that needs branches, so do loads."""
    if isinstance(elements, SymbolicDim) or elements == widest:
        return widest
    width = widest
    while width > 1 and elements < GPU_THREADS * width * device.processors // BUSY:
        width //= 2
    return width


def _cpu_mapping(rows: int, cols: int, device: DeviceSpec) -> ThreadMapping:
    chunk = CPU_CHUNK if isinstance(cols, SymbolicDim) else max(min(cols, CPU_CHUNK), 1)
    return ThreadMapping(ceil_div(cols, chunk) if rows == 1 else rows, 1, 1, 1, 1, chunk, warp=device.warp)


def _column_counts(pattern: Pattern, elements: int) -> list[int]:
    """Sizes of trailing axes of the outputs and of values inside, the largest first."""
    counts = {elements}
    for dims in {node.type.dims for node in pattern.nodes}:
        size = 1
        for dim in reversed(dims):
            size *= dim
            if size != 1 and divides(size, elements):
                counts.add(size)
    return sorted(counts, key=order, reverse=True)
