"""Which kernels may share a launch with others that run at the same time (kernel packing)."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.families.registry import family_of
from tf_stitch.ir.symbolic_dims import dimensions_of, typical
from tf_stitch.libraries.call import BoundCall
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.runtime.buffer_plan import Work

PACKED_SHARED_BYTES = 40 * 1024
"""Of a block, from which on its pack has blocks of equal memory alone: each has that of the member with most."""
LARGE = 1 << 20
"""Elements of a kernel that fills the device by itself. In a pack each of its blocks looks for its kernel among all: on
an H200 99 kernels, 61 of them of 2 million elements and more, took 1.8 ms in one launch; a copy of what they move takes
0.35. (Apart they have not been timed.)"""

MAX_PACKED_POINTERS = 480
"""Kernel parameters end at 4 KiB."""


def pack(works: Sequence[Work], rounds: Sequence[int], for_all_sizes: bool) -> list[list[int]]:
    """Kernel packing (FusionStitching section 5.1): kernels of one round share a launch, if their blocks have equal
    threads, clusters of equal size, and little shared memory or the same, while their parameters fit; where sizes
    change, if the same ones decide which kernels they are. Library calls and large kernels stand alone. Groups in the
    order they run."""
    most = MAX_PACKED_POINTERS // (2 if for_all_sizes else 1)  # sizes take room among the parameters too
    groups: dict[tuple[int, tuple[int, ...], int, tuple[str, ...]], list[list[int]]] = {}
    for i, work in enumerate(works):
        if isinstance(work, BoundCall):
            groups[rounds[i], (), i, ()] = [[i]]
            continue
        if not work.program.grid:  # no elements: no work
            continue
        alone = i if stands_alone(work) else -1
        packs = groups.setdefault((rounds[i], _block(work), alone, decided_by(work)), [[]])
        together = [one for j in (*packs[-1], i) if isinstance(one := works[j], LoweredKernel)]
        if packs[-1] and sum(len(one.arguments) for one in together) > most:
            packs.append([])
        packs[-1].append(i)
    ordered = sorted(groups.items(), key=lambda item: (item[0][0], item[1][0][0]))
    return [pack for _, packs in ordered for pack in packs]


def _block(kernel: LoweredKernel) -> tuple[int, ...]:
    """What blocks of a pack have in common: threads, blocks of a cluster, and bytes of shared memory if many."""
    program, shared = kernel.program, kernel.shared_bytes
    return program.threads, program.cluster, shared if shared > PACKED_SHARED_BYTES else 0


def stands_alone(kernel: LoweredKernel) -> bool:
    """Whether a kernel shares its launch with no other."""
    domain = kernel.schedule.domain
    return kernel.program.alone or typical(domain.rows * domain.cols) >= LARGE


def decided_by(kernel: LoweredKernel) -> tuple[str, ...]:
    """Dimensions whose numbers decided by how many threads a row or a column is taken: others need another kernel. A
    launch of kernels that depend on different ones would be needed for every two of their numbers."""
    schedule = kernel.schedule
    along = None if schedule.groups else family_of(schedule).along
    return () if along is None else dimensions_of(along(schedule.domain))
