"""What a budget of memory leaves to a region's arena, and what a region has beside it."""

from __future__ import annotations

from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.config import MemoryBudget
from tf_stitch.ir.op_attrs import AssignAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.placement.executable_format import StateMode
from tf_stitch.placement.liveness import needed
from tf_stitch.placement.memory_profile import memory_profile
from tf_stitch.placement.storage import memory_of


def bytes_of(budget: MemoryBudget, kernels: KernelPlan) -> int:
    """How many bytes of the arena may be alive at one time.

    Args:
        kernels: as they are planned for the least time; values have places.
    """
    if budget.arena is not None:
        return budget.arena
    if budget.nbytes is not None:
        return max(0, budget.nbytes - outside_bytes(kernels))
    return kernels.buffers.live_bytes - round((1 - budget.fraction) * waiting_bytes(kernels))


def waiting_bytes(kernels: KernelPlan) -> int:
    """Activations: bytes of the values that are there when most is, though no kernel that runs then touches them."""
    buffers = kernels.buffers
    profile = memory_profile(buffers)
    touched = {memory_of(need.node, buffers) for needs in needed(buffers.kernels, buffers.levels) for need in needs
               if need.first <= profile.peak <= need.last}
    return sum(nbytes for node, nbytes in profile.holders if node not in touched)


def outside_bytes(kernels: KernelPlan) -> int:
    """Bytes of a region's variables, inputs and results."""
    graph, buffers = kernels.plan.graph, kernels.buffers
    taken = [int(node.type.nbytes) for node in graph.inputs()]
    taken += [int(node.type.nbytes) for _, node in graph.outputs if node.kind is not OpKind.ASSIGN]
    fresh = {variable for variable, mode in buffers.state if mode is StateMode.FRESH}
    taken += [int(node.type.nbytes) for _, node in graph.outputs if isinstance(node.attrs, AssignAttrs)
              and buffers.variables.index(node.attrs.handle) in fresh]
    return sum(taken)
