"""Joins kernels of a plan that wait for each other into one, by grid barriers (AStitch's global scheme).

The kernels that the planner chose are the groups. Kernels that are connected by data, without a library call between,
follow each other in one launch where that is predicted to take less time than a launch for each of their levels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import networkx as nx

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.emit.cuda import shared_bytes
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import TensorGraph, users_of
from tf_stitch.ir.op_attrs import AssignAttrs, VariableAttrs
from tf_stitch.ir.sizes import Size
from tf_stitch.kernel_ir.nodes import Mode, Program
from tf_stitch.lowering import lower
from tf_stitch.lowering.groups import join_groups
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.planning.contraction import AcyclicContraction
from tf_stitch.planning.cost_model import predict_us, resident_blocks
from tf_stitch.planning.dependence import Edge
from tf_stitch.planning.part import TIE_US
from tf_stitch.planning.stitch_plan import StitchPlan, delivered, make_pattern
from tf_stitch.runtime.library_calls import LibraryCall
from tf_stitch.schedule.kernel_schedule import KernelSchedule, Rule
from tf_stitch.schedule.threads import with_items, with_threads

MOST_KERNELS = 16
"""Kernels of a connected part. In larger ones levels are wide, and their kernels share launches as it is."""
USUAL_THREADS = 512
"""Of a block: the fewer blocks there are, the sooner they have met."""
IN_FLIGHT = 4
"""Accesses that a thread of an elementwise group has under way: fewer threads are resident than in its own kernel."""
GRAPH_LAUNCHES, GRAPH_NODE_US = 3, 0.51
"""Launches from which a region runs as a CUDA graph (native/cuda_graph.cc), and what a kernel node of one costs, an
empty one on an H200. A grid barrier costs more."""
RULES = (Rule.ELEMENTWISE, Rule.ROW, Rule.COLUMN, Rule.MIXED)
STATIC_SLOTS = 8192
"""Bytes of shared memory that reductions over several warps may take beside the arrays."""

Work = LoweredKernel | LibraryCall
Levels = list[list[int]]
"""Numbers of kernels. Those of one level do not depend on each other; each needs one of the level before."""


def join_kernels(plan: StitchPlan, works: Sequence[Work], device: DeviceSpec, footprint: int) -> list[Work]:
    """The work of a plan with kernels joined, in an order in which it can run.

    Args:
        works: kernels and library calls in an order in which they can run.
        footprint: see ModelCost.
    """
    few = _joined(plan, works, device, footprint, device.profile.launch_us)
    if _launches(few) < GRAPH_LAUNCHES:
        return few
    return _joined(plan, works, device, footprint, min(device.profile.launch_us, GRAPH_NODE_US))


def _launches(works: Sequence[Work]) -> int:
    """How many there will be: kernels of one level share a launch if their blocks are alike (pipeline's packing)."""
    waits = nx.DiGraph(_data_edges(works))
    waits.add_nodes_from(range(len(works)))
    launches: set[tuple[int, int, int]] = set()
    for level, members in enumerate(nx.topological_generations(waits)):
        for i in members:
            work = works[i]
            alone = isinstance(work, LibraryCall) or work.program.cooperative or bool(shared_bytes(work.program))
            launches.add((level, 0 if isinstance(work, LibraryCall) else work.program.threads, i if alone else -1))
    return len(launches)


def _joined(plan: StitchPlan, works: Sequence[Work], device: DeviceSpec, footprint: int, launch_us: float
            ) -> list[Work]:
    """The work with kernels joined where launches cost so much."""
    data = list(_data_edges(works))
    edges = [*data, *_update_edges(plan.graph, works)]
    joiner = _Joiner(plan, works, device, footprint, launch_us)
    joined: list[tuple[list[int], LoweredKernel]] = []
    best, launches = list(works), _launches(works)
    for part in _parts(works, data):
        for found in joiner.kernels(part):
            trial = _in_order(works, edges, [*joined, found])
            if trial is not None and (fewer := _launches(trial)) < launches:  # else they share launches as it is
                joined.append(found)
                best, launches = trial, fewer
    return best


def _in_order(works: Sequence[Work], edges: Sequence[Edge], joined: Sequence[tuple[list[int], LoweredKernel]]
              ) -> list[Work] | None:
    """The work with joined kernels in the place of their members; None if they would wait for each other."""
    groups = AcyclicContraction(range(len(works)), edges)
    if not all(groups.merge(members[0], i) for members, _ in joined for i in members[1:]):
        return None
    place = {groups.find(members[0]): kernel for members, kernel in joined}
    return [place.get(groups.find(group[0]), works[group[0]]) for group in groups.groups()]


def _data_edges(works: Sequence[Work]) -> Iterator[Edge]:
    """(kernel that writes a value, kernel that reads it)."""
    writer = {node: i for i, work in enumerate(works) for node, mode in work.arguments if mode is not Mode.READ}
    for i, work in enumerate(works):
        for node, mode in work.arguments:
            if mode is Mode.READ and writer.get(node, i) != i:
                yield writer[node], i


def _update_edges(graph: TensorGraph, works: Sequence[Work]) -> Iterator[Edge]:
    """(kernel that reads a variable, later kernel that computes its new value), so that the order stays."""
    writer = {node: i for i, work in enumerate(works) for node, mode in work.arguments if mode is not Mode.READ}
    news = {n.attrs.handle: writer[n.operands[0]] for _, n in graph.outputs
            if isinstance(n.attrs, AssignAttrs) and n.operands[0] in writer}
    for i, work in enumerate(works):
        for node, _ in work.arguments:
            if isinstance(node.attrs, VariableAttrs) and i < news.get(node.attrs.handle, i):
                yield i, news[node.attrs.handle]


def _parts(works: Sequence[Work], edges: Sequence[Edge]) -> Iterator[Levels]:
    """Connected kernels that can be groups, by level."""
    able = {i for i, work in enumerate(works) if isinstance(work, LoweredKernel) and _can_be_group(work)}
    between = nx.DiGraph((a, b) for a, b in edges if a in able and b in able)
    for part in nx.weakly_connected_components(between):
        if len(part) <= MOST_KERNELS:
            yield [sorted(level) for level in nx.topological_generations(between.subgraph(part))]


def _can_be_group(kernel: LoweredKernel) -> bool:
    domain, pattern = kernel.schedule.domain, kernel.schedule.pattern
    known = {*pattern.reads(), *pattern.outputs}  # not so where a small product was written out
    return (kernel.schedule.rule in RULES and kernel.program.grid > 0
            and not any(isinstance(n, Size) for b in kernel.program.buffers for n in (b.size, domain.rows, domain.cols))
            and all(node in known for node, _ in kernel.arguments))


class _Joiner:
    def __init__(self, plan: StitchPlan, works: Sequence[Work], device: DeviceSpec, footprint: int,
                 launch_us: float) -> None:
        nodes = plan.graph.nodes()
        self._position = {node: i for i, node in enumerate(nodes)}
        self._users, self._wanted, self._free = users_of(nodes), frozenset(delivered(plan.graph)), plan.free
        self._works, self._device, self._footprint, self._launch_us = works, device, footprint, launch_us
        self._hopeless: set[tuple[tuple[Program, ...], ...]] = set()

    def kernels(self, levels: Levels) -> Iterator[tuple[list[int], LoweredKernel]]:
        """Levels that follow each other joined, as many as pay, and the numbers of the kernels in them."""
        start = 0
        while start < len(levels) - 1:
            for end in range(len(levels), start + 1, -1):
                kernel = self._join(levels[start:end])
                if kernel is not None:
                    yield [i for level in levels[start:end] for i in level], kernel
                    start = end - 1
                    break
            start += 1

    def _join(self, levels: Levels) -> LoweredKernel | None:
        """The levels as one kernel; None if it cannot be one, or takes longer than a launch for each level."""
        groups = [[self._kernel(i) for i in level] for level in levels]
        key = tuple(tuple(kernel.program for kernel in together) for together in groups)
        if key in self._hopeless:
            return None
        own = self._device.profile.launch_us  # which every prediction has in it
        work = sum(self._us(kernel) - own for together in groups for kernel in together)
        apart = work + self._launch_us * len(levels)
        least = max(kernel.program.threads for together in groups for kernel in together)
        found = [joined for threads in {least, max(least, USUAL_THREADS)}
                 if (joined := self._joined(groups, threads)) is not None]
        best = min(found, key=self._us, default=None)
        if best is None or self._us(best) - own + self._launch_us >= apart + TIE_US * (len(levels) - 1):
            self._hopeless.add(key)
            return None
        return best

    def _joined(self, groups: list[list[LoweredKernel]], threads: int) -> LoweredKernel | None:
        try:
            return self._try(groups, threads)
        except ScheduleError:
            return None

    def _try(self, groups: list[list[LoweredKernel]], threads: int) -> LoweredKernel:
        """The groups as one kernel of such blocks; ScheduleError if it cannot be."""
        device = self._device
        fitted = [[self._fit(kernel, threads) for kernel in together] for together in groups]
        alike = [kernel for together in fitted for kernel in together]
        if max(shared_bytes(kernel.program) for kernel in alike) + STATIC_SLOTS > device.shared_bytes:
            raise ScheduleError("a group takes all of the shared memory")
        resident = min(resident_blocks(kernel.program, device) for kernel in alike)
        grid = min(max(kernel.program.grid for kernel in alike), resident * device.processors)
        nodes = sorted((n for kernel in alike for n in kernel.schedule.pattern.nodes), key=self._position.__getitem__)
        pattern = make_pattern(nodes, self._users, self._wanted, self._free)
        largest = max((kernel.schedule for kernel in alike), key=lambda s: s.domain.rows * s.domain.cols)
        schedule = KernelSchedule(Rule.GROUPS, pattern, largest.dominant, largest.domain,
                                  replace(largest.mapping, grid=grid), resident=math.ceil(grid / device.processors),
                                  groups=tuple(tuple(kernel.schedule for kernel in together) for together in fitted))
        return join_groups(schedule, fitted)

    def _us(self, kernel: LoweredKernel) -> float:
        return predict_us(kernel.program, self._device, self._footprint)

    def _kernel(self, i: int) -> LoweredKernel:
        work = self._works[i]
        assert isinstance(work, LoweredKernel)
        return work

    def _fit(self, kernel: LoweredKernel, threads: int) -> LoweredKernel:
        """The kernel as a group: in blocks of so many threads, which make as many accesses as fill the device."""
        schedule = with_threads(kernel.schedule, threads)
        if schedule.mapping.grid >= IN_FLIGHT * self._device.processors:
            schedule = with_items(schedule, IN_FLIGHT)
        return kernel if schedule == kernel.schedule else lower(schedule)
