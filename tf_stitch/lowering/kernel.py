"""The product of lowering: a program, and which value each of its parameters is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import Node
from tf_stitch.ir.symbolic_dims import SymbolicDim, size
from tf_stitch.kernel_ir.array_memory import place_arrays
from tf_stitch.kernel_ir.cost import array_bytes, array_registers, block_cycles, shared_bytes
from tf_stitch.kernel_ir.nodes import Mode, Program
from tf_stitch.lowering.bounded_sums import bounded_sums
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.early_loads import early_loads
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.schedule.schemes import value_schemes


@dataclass(frozen=True)
class LoweredKernel:
    """`arguments` are in the order of `program.parameters`."""

    schedule: KernelSchedule
    program: Program
    arguments: tuple[tuple[Node, Mode], ...]

    @cached_property
    def shared_bytes(self) -> int:
        """Bytes of a block that all its threads reach."""
        return shared_bytes(self.program)


def finish(schedule: KernelSchedule, out: ScopedEmitter, buffers: BufferTable) -> LoweredKernel:
    """Closes a lowering.

    Raises:
        ScheduleError: the block has no room for its arrays.
    """
    body = out.statements
    cost = block_cycles(body)
    if any(isinstance(n, SymbolicDim) for n in (schedule.domain.rows, schedule.domain.cols)):
        cost = size("cost", cost)  # of the kernel for all sizes it is a parameter too
    program = Program(buffers.buffers, schedule.mapping.grid, schedule.mapping.threads, body, cost,
                      title(schedule.pattern), warp=schedule.mapping.warp)
    program = place_arrays(early_loads(program, schedule.early_bytes))
    taken = shared_bytes(program) if program.threads > 1 else array_bytes(program)
    if 0 < schedule.array_room < taken:
        raise ScheduleError(f"arrays of {taken} bytes where a block has {schedule.array_room}", schedule.dominant.loc)
    if 0 < schedule.array_registers < array_registers(program):
        raise ScheduleError(f"arrays of more than {schedule.array_registers} registers", schedule.dominant.loc)
    return LoweredKernel(replace(schedule, schemes=value_schemes(schedule)), program, tuple(buffers.arguments))


def with_bounded_sums(kernel: LoweredKernel) -> LoweredKernel:
    """The kernel as it is emitted: long sums in levels. Costs are those of the kernel without, so that which kernels
    there are, and how they are scheduled, does not depend on it."""
    return replace(kernel, program=bounded_sums(kernel.program))


def title(pattern: Pattern) -> str:
    """What a kernel computes, by the user's node names."""
    return ", ".join(user_nodes(pattern))


def user_nodes(pattern: Pattern) -> tuple[str, ...]:
    """Names of the user's nodes in a pattern."""
    return tuple(dict.fromkeys(n.loc.node for n in pattern.nodes if n.loc.node))
