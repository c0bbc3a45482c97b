"""Which kernels may share a launch with others that run at the same time (kernel packing)."""

from __future__ import annotations

from tf_stitch.families.registry import family_of
from tf_stitch.ir.symbolic_dims import dimensions_of, typical
from tf_stitch.lowering.kernel import LoweredKernel

PACKED_SHARED_BYTES = 40 * 1024
"""Of a block of a pack: each has the memory of the member that needs most."""
LARGE = 1 << 20
"""Elements of a kernel that fills the device by itself. In a pack each of its blocks looks for its kernel among all: on
an H200 99 kernels, 61 of them of 2 million elements and more, took 1.8 ms in one launch; a copy of what they move takes
0.35. (Apart they have not been timed.)"""


def stands_alone(kernel: LoweredKernel) -> bool:
    """Whether a kernel shares its launch with no other."""
    if kernel.shared_bytes > PACKED_SHARED_BYTES or kernel.program.alone:
        return True
    domain = kernel.schedule.domain
    return typical(domain.rows * domain.cols) >= LARGE


def decided_by(kernel: LoweredKernel) -> tuple[str, ...]:
    """Dimensions whose numbers decided by how many threads a row or a column is taken: others need another kernel. A
    launch of kernels that depend on different ones would be needed for every two of their numbers."""
    schedule = kernel.schedule
    along = None if schedule.groups else family_of(schedule).along
    return () if along is None else dimensions_of(along(schedule.domain))
