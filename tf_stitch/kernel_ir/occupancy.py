"""How many blocks a streaming multiprocessor holds at once, and the bound on registers that follows (AStitch section
4.5)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.sizes import Size
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.kernel_ir.work import count_work

LARGEST_REGISTERS, REGISTERS = 255, 65536
"""Registers of a thread, at most, and of a processor."""
RESIDENT_THREADS, RESIDENT_BLOCKS = 2048, 32
"""What a streaming multiprocessor holds at once."""
ASSUMED_REGISTERS, SCALAR_REGISTERS = 32, 16
"""What a thread is assumed to take: so many registers, or its arrays and so many where that is more. Of the 709 kernels
of the zoo's plans none spills for it (benchmarks/kernel_resources.md)."""


def blocks_that_fit(threads: int, registers: int, shared_bytes: int, device: DeviceSpec) -> int:
    """Blocks of that need which a processor holds, at least one."""
    by_threads = min(RESIDENT_THREADS, REGISTERS // min(registers, LARGEST_REGISTERS)) // threads
    by_shared = device.profile.shared_bytes // shared_bytes if shared_bytes else RESIDENT_BLOCKS
    return max(1, min(by_threads, by_shared, RESIDENT_BLOCKS))


def launch_bound(programs: Sequence[Program], device: DeviceSpec) -> int:
    """Blocks of a launch of programs side by side that the compiler has to leave registers for: a thread gets those of
    a processor divided by these blocks' threads. Assumed are few registers; where shared memory or the number of blocks
    lets a processor hold fewer blocks, their threads may have more. Blocks that wait for each other must all fit."""
    if programs[0].cooperative:
        return programs[0].resident
    fit = min(_assumed(program, device) for program in programs)
    grid = sum(program.grid for program in programs)
    return fit if isinstance(grid, Size) else max(1, min(fit, math.ceil(grid / device.processors)))


def _assumed(program: Program, device: DeviceSpec) -> int:
    work = count_work(program)
    registers = max(ASSUMED_REGISTERS, SCALAR_REGISTERS + work.registers)
    return blocks_that_fit(program.threads, registers, work.shared_bytes, device)
