"""Loops of kernels whose blocks are few: nothing else hides what a thread waits for, so it loads much together."""

from __future__ import annotations

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.planning.pattern import Pattern

FEW_BLOCKS, MOST_STEPS = 2, 16
"""Of a processor; of one that has so few, a thread loads in up to this many iterations together."""
MOST_TOGETHER, LEAST_STEPS = 64, 4
"""Elements that a thread loads together at most, and iterations at least. With these numbers [1,2048] x [2048,512] took
3.0 us on an H200 in blocks of 512 threads, 10.1 with 256, tiles of 32 columns and 4 rows together
(benchmarks/skinny_matmuls.md)."""


def few_blocks(grid: int, device: DeviceSpec) -> bool:
    """Whether a launch of this many blocks is known to leave processors with few."""
    return not isinstance(grid, SymbolicDim) and grid <= FEW_BLOCKS * device.processors


def loads_together(pattern: Pattern, elements: int, vector: int, times: int = 1) -> int:
    """Iterations of a loop over a domain of this many elements whose loads a thread has under way together.

    Args:
        vector: elements of an access.
        times: as many as else; of a thread that does the work of this many.
    """
    tensors = sum(read.type.numel >= elements for read in pattern.reads())
    steps = times * MOST_STEPS
    while steps > LEAST_STEPS and steps * tensors * vector > times * MOST_TOGETHER:
        steps //= 2
    return steps
