"""Passes that decide which values share memory, and place them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.pass_manager import PassResult
from tf_stitch.placement.storage import decide_storage, place_values


@dataclass(frozen=True)
class DecideStorage:
    """Decides which values lie in outputs, in variables, or over an operand, and which kernels run at the same time.

    Attributes:
        packed: kernels that do not depend on each other run at the same time, else one after the other.
        order_bytes: that another order of kernels has to save.
    """

    packed: bool
    order_bytes: int
    name: str = "decide_storage"

    def run(self, kernels: KernelPlan) -> PassResult[KernelPlan]:
        storage = decide_storage(kernels.plan.graph, kernels.work, kernels.inputs, kernels.variables, self.packed,
                                 self.order_bytes)
        return PassResult(replace(kernels, storage=storage), modified=True)


@dataclass(frozen=True)
class PlaceValues:
    """Gives each value that is left a place in the arena, by lifetimes."""

    name: str = "place_values"

    def run(self, kernels: KernelPlan) -> PassResult[KernelPlan]:
        return PassResult(replace(kernels, storage=place_values(kernels.buffers)), modified=True)
