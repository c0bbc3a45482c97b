"""Programs side by side in one launch, each on a range of its blocks."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.kernel_ir.nodes import Program


def cluster_of(programs: Sequence[Program]) -> int:
    """Neighbouring blocks that are a cluster of a launch. Programs without clusters may be beside such as have them:
    their blocks find themselves in clusters, and take no notice."""
    return max(program.cluster for program in programs)


def blocks_of(program: Program, cluster: int) -> int:
    """Blocks that a launch in clusters has for a program: whole clusters, for all blocks of one are to run the same
    program. Those beyond the program's own have nothing to do."""
    return program.grid if program.cluster == cluster else ceil_div(program.grid, cluster) * cluster


def grid_of(programs: Sequence[Program]) -> int:
    """Blocks of their launch."""
    cluster = cluster_of(programs)
    return sum(blocks_of(program, cluster) for program in programs)
