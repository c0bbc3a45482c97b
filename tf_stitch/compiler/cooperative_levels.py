"""One kernel of kernels that wait for each other, where it should take less time than a launch for each level."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tf_stitch.compiler.block_threads import with_items, with_threads
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.registry import lower
from tf_stitch.ir.graph import users_of
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.lowering.groups import fuse_groups
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.placement.buffer_plan import Work
from tf_stitch.planning.cost_model import predict_us, resident_blocks
from tf_stitch.planning.free_nodes import live_out
from tf_stitch.planning.pattern import make_pattern
from tf_stitch.planning.stitch_plan import StitchPlan
from tf_stitch.schedule.kernel_schedule import COOPERATIVE, KernelSchedule

USUAL_THREADS = 512
"""Of a block: the fewer blocks there are, the sooner they have met."""
IN_FLIGHT = 4
"""Accesses that a thread of an elementwise group has under way: fewer threads are resident than in its own kernel."""
STATIC_SLOTS = 8192
"""Bytes of shared memory that reductions over several warps may take beside the arrays."""

Levels = list[list[int]]
"""Numbers of kernels. Those of one level do not depend on each other; each needs one of the level before."""


class CooperativeFuser:
    """Joins kernels of a plan by level.

    Args:
        works: kernels and library calls.
        footprint: see ModelCost.
    """

    def __init__(self, plan: StitchPlan, works: Sequence[Work], device: DeviceSpec, footprint: int) -> None:
        nodes = plan.graph.nodes()
        self._position = {node: i for i, node in enumerate(nodes)}
        self._users, self._wanted, self._free = users_of(nodes), frozenset(live_out(plan.graph)), plan.free
        self._works, self._device, self._footprint = works, device, footprint
        self._hopeless: set[tuple[tuple[Program, ...], ...]] = set()

    def kernels(self, levels: Levels) -> Iterator[tuple[list[int], LoweredKernel]]:
        """Levels that follow each other fused, as many as pay, and the numbers of the kernels in them."""
        start = 0
        while start < len(levels) - 1:
            for end in range(len(levels), start + 1, -1):
                kernel = self._fuse(levels[start:end])
                if kernel is not None:
                    yield [i for level in levels[start:end] for i in level], kernel
                    start = end - 1
                    break
            start += 1

    def _fuse(self, levels: Levels) -> LoweredKernel | None:
        """The levels as one kernel; None if it cannot be one, or takes longer than a launch for each level."""
        groups = [[self._kernel(i) for i in level] for level in levels]
        key = tuple(tuple(kernel.program for kernel in together) for together in groups)
        if key in self._hopeless:
            return None
        launch = self._device.profile.launch_us  # kernels of a level share one
        tie = self._device.profile.choices.tie_us
        apart = sum(launch + sum(self._us(kernel) - launch for kernel in together) for together in groups)
        least = max(kernel.program.threads for together in groups for kernel in together)
        found = [fused for threads in {least, max(least, USUAL_THREADS)}
                 if (fused := self._fused(groups, threads)) is not None]
        best = min(found, key=self._us, default=None)
        if best is None or self._us(best) >= apart + tie * (len(levels) - 1):
            self._hopeless.add(key)
            return None
        return best

    def _fused(self, groups: list[list[LoweredKernel]], threads: int) -> LoweredKernel | None:
        try:
            return self._try(groups, threads)
        except ScheduleError:
            return None

    def _try(self, groups: list[list[LoweredKernel]], threads: int) -> LoweredKernel:
        """The groups as one kernel of such blocks; ScheduleError if it cannot be."""
        device = self._device
        fitted = [[self._fit(kernel, threads) for kernel in together] for together in groups]
        alike = [kernel for together in fitted for kernel in together]
        if max(kernel.shared_bytes for kernel in alike) + STATIC_SLOTS > device.shared_bytes:
            raise ScheduleError("a group takes all of the shared memory")
        resident = min(resident_blocks(kernel.program, device) for kernel in alike)
        grid = min(max(kernel.program.grid for kernel in alike), resident * device.processors)
        nodes = sorted((n for kernel in alike for n in kernel.schedule.pattern.nodes), key=self._position.__getitem__)
        pattern = make_pattern(nodes, self._users, self._wanted, self._free)
        largest = max((kernel.schedule for kernel in alike), key=lambda s: s.domain.rows * s.domain.cols)
        schedule = KernelSchedule(COOPERATIVE, pattern, largest.dominant, largest.domain,
                                  replace(largest.mapping, grid=grid), resident=math.ceil(grid / device.processors),
                                  groups=tuple(tuple(kernel.schedule for kernel in together) for together in fitted))
        return fuse_groups(schedule, fitted)

    def _us(self, kernel: LoweredKernel) -> float:
        return predict_us(kernel.program, self._device, self._footprint)

    def _kernel(self, i: int) -> LoweredKernel:
        work = self._works[i]
        assert isinstance(work, LoweredKernel)
        return work

    def _fit(self, kernel: LoweredKernel, threads: int) -> LoweredKernel:
        """The kernel as a group: in blocks of this many threads, which make as many accesses as fill the device."""
        schedule = with_threads(kernel.schedule, threads)
        if schedule.mapping.grid >= IN_FLIGHT * self._device.processors:
            schedule = with_items(schedule, IN_FLIGHT)
        return kernel if schedule == kernel.schedule else lower(schedule)
