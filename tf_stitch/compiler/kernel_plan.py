"""A region on its way from a fusion plan to placed kernels: what plan passes work on."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.ir.graph import Node
from tf_stitch.placement.buffer_plan import BufferPlan, Work
from tf_stitch.planning.stitch_plan import StitchPlan


@dataclass(frozen=True)
class KernelPlan:
    """
    Attributes:
        plan: the patterns.
        inputs, variables: keys and handles in the order in which the op gets them.
        work: the kernels and library calls of the patterns, in an order in which they can run; none before they are
            made.
        storage: which values share memory and, once they are placed, where each lives; None before it is decided.
        pieces: a matmul whose rows are computed piece by piece, for the sake of memory, and in how many.
        unlimited: what it was before it was kept to a budget of memory; None if it was not.
    """

    plan: StitchPlan
    inputs: tuple[str, ...]
    variables: tuple[str, ...]
    work: tuple[Work, ...] = ()
    storage: BufferPlan | None = None
    pieces: tuple[Node, int] | None = None
    unlimited: KernelPlan | None = None

    @property
    def buffers(self) -> BufferPlan:
        """The storage, which has been decided."""
        assert self.storage is not None, "a pass decides storage before others read it"
        return self.storage
