"""Kernels that touch a large tensor again begin where the one before ended: the last of it is still in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.graph import Node
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.kernel_ir.nodes import GridLoop, Program
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.pass_manager import PassResult
from tf_stitch.placement.buffer_plan import Work


@dataclass(frozen=True)
class ReverseBlockOrder:
    """Reverses the blocks of kernels that go through a tensor again."""

    device: DeviceSpec
    name: str = "reverse_block_order"

    def run(self, kernels: KernelPlan) -> PassResult[KernelPlan]:
        work = tuple(reverse_block_order(kernels.work, self.device))
        return PassResult(replace(kernels, work=work), modified=work != kernels.work)


def reverse_block_order(works: Sequence[Work], device: DeviceSpec) -> list[Work]:
    """The work with blocks of kernels in reverse order where the kernel before went through the same tensor forwards.
    Blocks do not depend on each other, so any order is right.

    Args:
        works: in the order in which they run.
    """
    reverse: dict[Node, bool] = {}  # how each large tensor was gone through last
    turned: list[Work] = []
    for work in works:
        large = [node for node, _ in work.arguments if not isinstance(node.type.numel, SymbolicDim)
                 and node.type.nbytes > device.profile.cache_bytes]
        again = next((node for node in large if node in reverse), None)
        turns = again is not None and not reverse[again] and isinstance(work, LoweredKernel) and _plain(work.program)
        reverse |= dict.fromkeys(large, turns)
        turned.append(backwards(work) if turns and isinstance(work, LoweredKernel) else work)
    return turned


def _plain(program: Program) -> bool:
    return (not program.looped and program.cluster == 1 and program.grid > 0
            and not isinstance(program.grid, SymbolicDim))


def backwards(kernel: LoweredKernel) -> LoweredKernel:
    """The kernel with its last block first."""
    program = kernel.program
    return replace(kernel, program=replace(program, body=(GridLoop(program.grid, program.body, backwards=True),)))
