"""What is staged of a row: by one block in registers, by blocks that share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tf_stitch.ir.graph import Node
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.kernel_schedule import KernelSchedule, Scheme, Staged
from tf_stitch.schedule.phases import (
    Phase,
    exponentials,
    is_dear,
    prefetched_values,
    reached,
    read_by_exponentials_alone,
    relative_sum,
    split_phases,
)

LARGEST_BLOCK, LARGEST_BUDGET = 1024, 40
"""Threads of a block that have 64 registers in all, and those of them that values staged by each may take."""


def stage_parts(schedule: KernelSchedule, to_stage: Sequence[Node], scheme: Scheme) -> KernelSchedule:
    """The schedule of a row that blocks share, with what each keeps of its part. The exponentials of a softmax take the
    place of their operands; staged without these, they are relative to the row's maximum, which takes a cross-block
    reduction more. So do other dear values that are all that is needed later."""
    phases = split_phases(schedule.pattern, schedule.domain.rows * schedule.domain.cols)
    relative = relative_sum(schedule.pattern, phases)
    plain = replace(schedule, staged=tuple(Staged(n, scheme) for n in to_stage), relative=None)
    if relative is None:
        return replace(plain, staged=tuple(_in_place(schedule.pattern, phases, to_stage, scheme)))
    over, operand = exponentials(relative), relative[0].operands[0]
    in_place = operand in to_stage and read_by_exponentials_alone(schedule.pattern, relative, phases)
    if not in_place and set(over) & set(to_stage):
        return plain
    staged = [Staged(n, scheme) for n in to_stage if n not in over]
    if in_place:
        staged.append(Staged(over[0], scheme, operand))
    return replace(schedule, staged=tuple(staged), relative=relative)


def _in_place(pattern: Pattern, phases: Sequence[Phase], to_stage: Sequence[Node], scheme: Scheme) -> list[Staged]:
    """What is staged; what comes from outside gives its place to a value that all later phases are content with."""
    successors = {new: old for old in prefetched_values(pattern, to_stage)
                  if (new := _successor(pattern, phases, old)) is not None}
    return [*(Staged(n, scheme) for n in to_stage if n not in successors),
            *(Staged(new, scheme, old) for new, old in successors.items())]


def _successor(pattern: Pattern, phases: Sequence[Phase], value: Node) -> Node | None:
    """The dearest value computed from `value`, not in the first phase, through which alone later phases need it."""
    for i, phase in enumerate(phases[1:], 1):
        later = [root for other in phases[i + 1:] for root in other.roots]
        if not later or value not in reached(pattern, later, {value}):
            return None
        both = reached(pattern, phase.roots, {value}) & reached(pattern, later, {value})
        dear = [n for n in pattern.nodes if n in both and n.type.dtype.compute.size == value.type.dtype.compute.size
                and is_dear(n, pattern) and value not in reached(pattern, later, {n})]
        if dear:
            return dear[-1]
    return None


def within_budget(pattern: Pattern, to_stage: list[Node], threads: int, elements: int) -> list[Node] | None:
    """What a block of this many threads keeps in registers: all, or what comes from outside (the rest is recomputed);
    None if it has too few for that, too.

    Args:
        elements: of each value, those of a thread.
    """
    for some in (to_stage, prefetched_values(pattern, to_stage)):
        if threads < LARGEST_BLOCK or elements * _registers(pattern, some) <= LARGEST_BUDGET:
            return some
    return None


def _registers(pattern: Pattern, to_stage: Sequence[Node]) -> int:
    """32-bit registers of an element of all values that are staged at one time: from the phase that computes a value to
    the last one that needs it."""
    phases = split_phases(pattern, to_stage[0].type.numel if to_stage else 0)
    computed: set[Node] = set()
    most = 0
    for i, phase in enumerate(phases):
        computed |= reached(pattern, phase.roots, computed & set(to_stage))
        known = computed & set(to_stage)
        later = [root for other in phases[i + 1:] for root in other.roots]
        needed = reached(pattern, later, known) & known
        most = max(most, sum(max(1, n.type.dtype.compute.size // 4) for n in needed))
    return most
