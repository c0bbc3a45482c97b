"""Staged values in memory of the block are demoted one by one where it is short (AStitch section 4.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tf_stitch.device.profile import interpolate
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.kernel_schedule import KernelSchedule, Scheme, Staged


def regional_schedules(schedule: KernelSchedule, to_stage: Sequence[Node], room: int, device: DeviceSpec
                       ) -> Iterator[KernelSchedule]:
    """The schedule with `to_stage` in memory of the block, which ends at `room` bytes: all of them; then, should
    lowering find that they do not fit, one less each time, down to none. A demoted value is computed or read again in
    every phase that needs it, from what is staged still."""
    fit = [n for n in to_stage if n.type.dtype.compute.size * (schedule.row_room or schedule.domain.cols) <= room]
    for still in one_by_one(schedule.pattern, fit, device):
        yield replace(schedule, staged=tuple(Staged(n, Scheme.REGIONAL) for n in still), array_room=room)


def one_by_one(pattern: Pattern, to_stage: Sequence[Node], device: DeviceSpec) -> Iterator[list[Node]]:
    """`to_stage`, then without the value that costs least for each byte it frees, and so on."""
    still = list(to_stage)
    yield list(still)
    while still:
        ns = {n: _again_ns(n, pattern, set(still) - {n}, device) for n in still}
        still.remove(min(still, key=lambda n: ns[n] / n.type.dtype.compute.size))
        yield list(still)


def _again_ns(node: Node, pattern: Pattern, to_stage: set[Node], device: DeviceSpec) -> float:
    """Nanoseconds that the device takes to compute or read an element again, in the time of all its elements."""
    profile = device.profile
    bandwidth = interpolate(profile.bandwidth, node.type.nbytes)
    total, stack, visited = 0.0, [node], set[Node]()
    while stack:
        n = stack.pop()
        if n in visited or n in to_stage or n.type.numel != node.type.numel or n.category is Category.REDUCTION:
            continue
        visited.add(n)
        if not pattern.holds(n):
            total += n.type.dtype.size / bandwidth
            continue
        total += 1 / profile.rate(n.type.dtype.compute.value, n.kind.value, n.info.cost)
        stack.extend(n.operands)
    return total
