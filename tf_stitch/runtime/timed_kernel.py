"""Single kernels to be timed: source and geometry, apart from the device that times them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.emit.cpu import emit_cpu
from tf_stitch.emit.cuda import Packed, emit_cuda
from tf_stitch.ir.dtypes import DType
from tf_stitch.kernel_ir.cost import shared_bytes
from tf_stitch.kernel_ir.nodes import Mode, Program
from tf_stitch.kernel_ir.occupancy import launch_bound


@dataclass(frozen=True)
class TimedKernel:
    """One launch; `buffers` holds element type, elements and whether the kernel reads each parameter. A cooperative one
    gets the counter of a grid barrier beside."""

    symbol: str
    grid: int
    threads: int
    shared_bytes: int
    buffers: tuple[tuple[str, int, bool], ...]
    cooperative: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return sum(DType(dtype).size * size for dtype, size, _ in self.buffers)


def timed_kernels(programs: Sequence[Program], device: DeviceSpec) -> tuple[str, list[TimedKernel]]:
    """One source for all programs, and a kernel for each, in order. Programs have work: a grid that is not empty."""
    named = [(f"stitch_{i}", program) for i, program in enumerate(programs)]
    if device.is_gpu:
        bounds = [launch_bound([program], device) for program in programs]
        stem, launches = "launch", [Packed(f"launch_{i}", (i,), bound) for i, bound in enumerate(bounds)]
        source = emit_cuda(named, launches)
    else:
        stem, source = "stitch", emit_cpu(named)
    return source, [
        TimedKernel(f"{stem}_{i}", p.grid, p.threads, shared_bytes(p) if device.is_gpu else 0,
                    tuple((b.dtype.value, b.size, b.mode is not Mode.WRITE) for b in p.parameters), p.cooperative)
        for i, p in enumerate(programs)]
