"""Who is in a region's arena, and when: bytes over time, the values alive when most are, and the least that any order
of the kernels could do with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from tf_stitch.ir.graph import Node
from tf_stitch.kernel_ir.nodes import Mode
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.placement.buffer_plan import BufferPlan, Work
from tf_stitch.placement.concurrency_levels import Touch, waits_for
from tf_stitch.placement.liveness import scratch_parts
from tf_stitch.placement.memory_bound import least_live_bytes
from tf_stitch.placement.storage import memory_of


@dataclass(frozen=True)
class MemoryProfile:
    """The arena of one executable. Times are those that lifetimes are counted in: levels of kernels that run together,
    and parts of a kernel between its grid barriers.

    Attributes:
        alive: bytes at each time.
        peak: the first time at which most are.
        holders: values that are there at that time, the largest first, with their bytes.
        least_bytes: that these kernels need at one time in whichever order they run.
    """

    alive: tuple[int, ...]
    peak: int
    holders: tuple[tuple[Node, int], ...]
    least_bytes: int


def memory_profile(plan: BufferPlan) -> MemoryProfile:
    """The profile of a plan whose values have places."""
    change = [0] * (2 + max((life.last for life in plan.lives.values()), default=-1))
    for life in plan.lives.values():
        change[life.first] += life.nbytes
        change[life.last + 1] -= life.nbytes
    alive = tuple(accumulate(change))[:-1]
    peak = alive.index(max(alive)) if alive else 0
    held = [(node, life.nbytes) for node, life in plan.lives.items() if life.first <= peak <= life.last]
    return MemoryProfile(alive, peak, tuple(sorted(held, key=lambda one: -one[1])), _least_bytes(plan))


def _least_bytes(plan: BufferPlan) -> int:
    """Kernels with grid barriers are several steps, which follow each other: what their groups hand to each other may
    share memory. What is copied after all kernels is a step of its own."""
    number = {node: i for i, node in enumerate(plan.lives)}
    sizes = [life.nbytes for life in plan.lives.values()]
    first: list[int] = []
    last: list[int] = []
    uses: list[list[int]] = []
    waits: list[list[int]] = []
    waited = waits_for([_touches(plan, kernel) for kernel in plan.kernels])
    for kernel, earlier in zip(plan.kernels, waited, strict=True):
        first.append(len(uses))
        for values in _parts(plan, kernel):
            waits.append([last[j] for j in earlier] if len(uses) == first[-1] else [len(uses) - 1])
            uses.append([number[memory] for memory in values if memory in number])
        last.append(len(uses) - 1)
    copied = [number[memory] for _, node in plan.copied if (memory := memory_of(node, plan)) in number]
    if copied:
        waits.append(last)
        uses.append(copied)
    return least_live_bytes(sizes, uses, waits)


def _touches(plan: BufferPlan, kernel: Work) -> list[Touch]:
    """The arena's values by their memory, whose places other values have before and after them; all others by place."""
    found = []
    for node, mode in kernel.arguments:
        memory = memory_of(node, plan)
        found.append(Touch(memory if memory in plan.lives else plan.argument(node, mode), mode is Mode.WRITE))
    return found


def _parts(plan: BufferPlan, kernel: Work) -> Sequence[Sequence[Node]]:
    """The memory that a kernel touches between two grid barriers each."""
    arguments = [memory_of(node, plan) for node, _ in kernel.arguments]
    parts = scratch_parts(kernel)
    if len(parts) < 2 or not isinstance(kernel, LoweredKernel):
        return [arguments]
    names = {b.name for b in kernel.program.buffers if b.mode is Mode.SCRATCH}
    found = []
    for touched in parts:
        own = [p.name not in names or p.name in touched for p in kernel.program.parameters]
        found.append([memory for memory, there in zip(arguments, own, strict=True) if there])
    return found
