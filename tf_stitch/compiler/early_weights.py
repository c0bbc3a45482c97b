"""Kernels read what no step of a region writes, weights above all, before those that they depend on have ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.kernel_ir.nodes import Mode, Program
from tf_stitch.kernel_ir.occupancy import LARGEST_REGISTERS
from tf_stitch.kernel_ir.side_by_side import grid_of
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.lowering.loads_before_dependencies import loads_before_dependencies
from tf_stitch.lowering.matmul_prefetch import prefetch_before_dependencies
from tf_stitch.lowering.rows_before_dependencies import rows_before_dependencies
from tf_stitch.placement.buffer_plan import BufferPlan, Work
from tf_stitch.placement.executable import BufferRef
from tf_stitch.placement.executable_format import Space

CACHE_PART = 0.5
"""Of the L2 cache, which keys and values may take before they are read. Assumed: weights go through it meanwhile."""
OTHERS = 56
"""Registers that a thread is left for all else besides what it loads before: compilers took 24 to 61."""


def with_early_weights(buffers: BufferPlan, groups: Sequence[Sequence[int]], device: DeviceSpec) -> list[Work]:
    """The kernels and calls of a region, kernels with loads before they await others.

    A region's inputs and variables are there before its first step, whose launch waits for all that came before. What
    lies in the arena, and results, are written by steps.

    Args:
        groups: of each launch, its kernels, which run side by side.
    """
    if not device.early_starts:
        return buffers.kernels
    written, early = _written(buffers), list(buffers.kernels)
    for group in groups:
        kernels = {i: work for i in group if isinstance(work := buffers.kernels[i], LoweredKernel)}
        blocks = grid_of([kernel.program for kernel in kernels.values()]) if kernels else 0
        for i, kernel in kernels.items():
            room = _room(kernel.program, blocks, device)
            early[i] = _with_early_loads(kernel, buffers, written, room, device.profile.cache_bytes * CACHE_PART)
    return early


def _written(buffers: BufferPlan) -> set[BufferRef]:
    """What steps write."""
    return {buffers.argument(node, mode) for work in buffers.kernels for node, mode in work.arguments
            if mode is not Mode.READ} | {copy.target for copy in buffers.copies}


def _with_early_loads(kernel: LoweredKernel, buffers: BufferPlan, written: set[BufferRef], room: int,
                      cache: float) -> LoweredKernel:
    places = [buffers.argument(node, mode) for node, mode in kernel.arguments]
    unwritten = [parameter.name for parameter, place in zip(kernel.program.parameters, places, strict=True)
                 if parameter.mode is Mode.READ and not parameter.shared and place not in written
                 and place.space in (Space.INPUT, Space.VARIABLE)]
    program = prefetch_before_dependencies(kernel.program, unwritten)
    program = loads_before_dependencies(program, unwritten, room)
    program = rows_before_dependencies(program, cache)
    return kernel if program is kernel.program else replace(kernel, program=program)


def _room(program: Program, grid: int, device: DeviceSpec) -> int:
    """Registers of a thread for what it loads before, so that all blocks of a launch are there at once: later ones
    would find that dependencies have ended.

    Args:
        grid: the launch's blocks, a program's own among them.
    """
    if isinstance(grid, SymbolicDim):
        return 0
    blocks = max(math.ceil(grid / device.processors), 1)
    return min(LARGEST_REGISTERS, device.registers // (blocks * program.threads)) - OTHERS
