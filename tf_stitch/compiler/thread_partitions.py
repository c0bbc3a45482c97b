"""How kernels can share a block's threads (HFuse, section 3.2 and Fig. 6): in steps of 128, each partition without and
with a bound on registers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import TypeAlias

from tf_stitch.compiler.block_threads import with_threads
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.registry import lower
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.kernel_ir.cost import shared_bytes
from tf_stitch.kernel_ir.nodes import Mode, Program
from tf_stitch.kernel_ir.occupancy import blocks_that_fit
from tf_stitch.kernel_ir.thread_ranges import cannot_be_range, side_by_side
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.placement.buffer_plan import Work
from tf_stitch.planning.cost_model import resident_blocks
from tf_stitch.schedule.kernel_schedule import MAX_THREADS

STEP = 128
"""Threads of a part are a multiple: other sizes break patterns of memory accesses."""

Kernels: TypeAlias = tuple[LoweredKernel, ...]


@dataclass(frozen=True)
class Partition:
    """Kernels in blocks of the threads of all of them.

    Attributes:
        resident: blocks that a processor is to hold (r0 follows from it); 0: the compiler's choice.
    """

    kernels: Kernels
    resident: int = 0

    @property
    def program(self) -> Program:
        return side_by_side([kernel.program for kernel in self.kernels], self.resident)

    @property
    def threads(self) -> tuple[int, ...]:
        """The threads of each kernel."""
        return tuple(kernel.program.threads for kernel in self.kernels)


def can_share(work: Work, device: DeviceSpec) -> bool:
    """Whether a kernel's threads can be part of a block, and their number is known."""
    if not isinstance(work, LoweredKernel) or work.schedule.groups:
        return False
    sizes = (work.program.grid, *(b.size for b in work.program.buffers))
    return not any(isinstance(n, SymbolicDim) for n in sizes) and not cannot_be_range(work.program)


def partitions(kernels: Kernels, device: DeviceSpec) -> Iterator[Partition]:
    """Every partition, without a bound on registers: those nearest to the kernels' own blocks first."""
    if device.block_barriers <= len(kernels):  # one for each, beside the block's own
        return
    own = [kernel.program.threads for kernel in kernels]
    sizes = range(STEP, MAX_THREADS - STEP * (len(kernels) - 1) + 1, STEP)
    possible = [threads for threads in product(sizes, repeat=len(kernels)) if sum(threads) <= MAX_THREADS]

    @cache
    def resized(i: int, threads: int) -> LoweredKernel | None:
        return _resized(kernels[i], threads)

    for threads in sorted(possible, key=lambda t: sum(abs(a - b) for a, b in zip(t, own, strict=True))):
        partition = _partition([resized(*one) for one in enumerate(threads)], device)
        if partition is not None:
            yield partition


def partition_of(kernels: Kernels, threads: Sequence[int], resident: int, device: DeviceSpec) -> Partition | None:
    """The partition of this many threads; None where there is none."""
    if len(threads) != len(kernels) or any(n % STEP or not 0 < n < MAX_THREADS for n in threads):
        return None
    free = _partition([_resized(*one) for one in zip(kernels, threads, strict=True)], device)
    return None if free is None else Partition(free.kernels, resident)


def bounded(free: Partition, device: DeviceSpec) -> Partition | None:
    """A partition with a bound on registers that keeps as many blocks resident as of any of its kernels alone: b0 of
    the paper's Fig. 6, judged by arrays, since how many registers a compiler takes is not known before. None where that
    bounds nothing."""
    whole = free.program
    room = blocks_that_fit(whole.threads, 1, shared_bytes(whole), device)  # but for registers
    resident = min(room, *(resident_blocks(kernel.program, device) for kernel in free.kernels))
    return Partition(free.kernels, resident) if resident > 1 else None


def _partition(kernels: Sequence[LoweredKernel | None], device: DeviceSpec) -> Partition | None:
    """None where a kernel lacks such blocks, or a block has no room for all."""
    found = tuple(kernel for kernel in kernels if kernel is not None)
    if len(found) < len(kernels) or sum(kernel.program.threads for kernel in found) > MAX_THREADS:
        return None
    return Partition(found) if sum(kernel.shared_bytes for kernel in found) <= device.shared_bytes else None


def _resized(kernel: LoweredKernel, threads: int) -> LoweredKernel | None:
    """The kernel in blocks of as many threads; None if it has none, or if more than its pattern decided about it: what
    it writes over, and what it reads in the place of a matmul's operands."""
    if threads == kernel.program.threads:
        return kernel
    if any(b.shared or b.mode is Mode.UPDATE for b in kernel.program.buffers):
        return None
    try:
        found = lower(with_threads(kernel.schedule, threads))
    except ScheduleError:
        return None
    return found if {n for n, _ in found.arguments} == {n for n, _ in kernel.arguments} else None
