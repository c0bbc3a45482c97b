"""How many blocks a streaming multiprocessor holds at once, and the bound on registers that follows (AStitch section
4.5)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.kernel_ir.cost import array_registers, shared_bytes
from tf_stitch.kernel_ir.nodes import Matmul, Program
from tf_stitch.kernel_ir.side_by_side import grid_of
from tf_stitch.kernel_ir.walk import statements

LARGEST_REGISTERS = 255
"""Registers of a thread, at most."""
BASE_REGISTERS = 32
"""Registers that a thread is assumed to take beside its arrays."""
MATMUL_REGISTERS = 64
"""Registers of a thread of a matmul by tensor cores, beside its results. Assumed."""
COMPILERS_CHOICE = 0
"""A bound that is none, but for the block's own threads."""


def blocks_that_fit(threads: int, registers: int, shared_bytes: int, device: DeviceSpec) -> int:
    """Blocks of that need which a processor holds, at least one."""
    by_threads = min(device.resident_threads, device.registers // min(registers, LARGEST_REGISTERS)) // threads
    by_shared = device.profile.shared_bytes // shared_bytes if shared_bytes else device.resident_blocks
    return max(1, min(by_threads, by_shared, device.resident_blocks))


def launch_bound(programs: Sequence[Program], device: DeviceSpec) -> int:
    """Blocks of a launch of programs side by side that the compiler has to leave registers for: a thread gets those of
    a processor divided by these blocks' threads. Blocks that wait for each other must all fit, whatever it costs. For
    others few registers are assumed; where shared memory or the number of blocks lets a processor hold fewer blocks
    than those allow, their threads may have more. Where registers alone decide, nothing is known better than the
    compiler does: COMPILERS_CHOICE. So it is where nobody deals out registers. A program may say itself how many,
    which is of its own blocks alone."""
    if not device.registers:
        return COMPILERS_CHOICE
    resident = max(program.resident for program in programs)
    if resident and len(programs) > 1:
        return min(resident_together(programs, device), math.ceil(grid_of(programs) / device.processors))
    if resident:
        return resident
    by_registers = min(_resident(p.threads, array_registers(p), 0, device) for p in programs)
    fit = min(_resident(p.threads, array_registers(p), shared_bytes(p), device) for p in programs)
    grid = grid_of(programs)
    if not isinstance(grid, SymbolicDim):
        fit = max(1, min(fit, math.ceil(grid / device.processors)))
    return fit if fit < by_registers else COMPILERS_CHOICE


def resident_together(programs: Sequence[Program], device: DeviceSpec) -> int:
    """Blocks that a processor holds of a launch of programs side by side: each has the shared memory and the registers
    of the one that takes most."""
    registers = max(_registers(program, device) for program in programs)
    return blocks_that_fit(programs[0].threads, registers, max(map(shared_bytes, programs)), device)


def _registers(program: Program, device: DeviceSpec) -> int:
    """Of a thread. A program that says how many blocks a processor is to hold may have what that leaves, unless it is
    known to need less."""
    results = [s.tiling.parts * s.tiling.rows * s.tiling.columns // program.threads for s in statements(program.body)
               if isinstance(s, Matmul)]
    if results:
        return MATMUL_REGISTERS + max(results)
    if program.resident:
        return min(LARGEST_REGISTERS, device.registers // (program.resident * program.threads))
    return BASE_REGISTERS + array_registers(program)


def fits_registers(program: Program, device: DeviceSpec) -> bool:
    """Whether a thread has registers enough for its arrays: more would spill. Where nobody deals out registers, arrays
    are in memory."""
    if not device.registers:
        return True
    together = max(program.resident, 1) * program.threads
    return BASE_REGISTERS + array_registers(program) <= min(LARGEST_REGISTERS, device.registers // together)


def _resident(threads: int, arrays: int, shared: int, device: DeviceSpec) -> int:
    return blocks_that_fit(threads, BASE_REGISTERS + arrays, shared, device)
