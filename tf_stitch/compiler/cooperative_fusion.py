"""Joins kernels of a plan that wait for each other into one, by grid barriers (AStitch's global scheme).

The kernels that the planner chose are the groups. Kernels that are connected by data, without a library call between,
follow each other in one launch where that is predicted to take less time than a launch for each of their levels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import networkx as nx

from tf_stitch.compiler.cooperative_levels import CooperativeFuser, Levels
from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.families.registry import family_of
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_attrs import AssignAttrs, VariableAttrs
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.kernel_ir.nodes import Mode
from tf_stitch.libraries.call import BoundCall
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.pass_manager import PassResult
from tf_stitch.placement.buffer_plan import Work
from tf_stitch.planning.acyclic_contraction import AcyclicContraction
from tf_stitch.planning.dependence import Edge
from tf_stitch.planning.stitch_plan import StitchPlan

MOST_KERNELS = 16
"""Kernels of a connected part. In larger ones levels are wide, and their kernels share launches as it is."""
MOST_WORK = 256
"""Kernels and library calls of a region. Larger ones are CUDA graphs in any case."""
GRAPH_LAUNCHES = 3
"""Launches from which a region runs as a CUDA graph (native/cuda/cuda_graph.cc). A node of one costs less than a grid
barrier: 0.51 us on an H200, if it is empty, against 0.9 to 1.3."""


@dataclass(frozen=True)
class CooperativeFusion:
    """Fuses kernels into cooperative launches.

    Attributes:
        footprint: bytes that a run of the whole region reads and writes (see ModelCost).
    """

    device: DeviceSpec
    footprint: int
    name: str = "cooperative_fusion"

    def run(self, kernels: KernelPlan) -> PassResult[KernelPlan]:
        work = tuple(fuse_cooperatively(kernels.plan, kernels.work, self.device, self.footprint))
        return PassResult(replace(kernels, work=work), modified=len(work) < len(kernels.work))


def fuse_cooperatively(plan: StitchPlan, works: Sequence[Work], device: DeviceSpec, footprint: int) -> list[Work]:
    """The work of a plan with kernels fused, in an order in which it can run.

    Args:
        works: kernels and library calls in an order in which they can run.
        footprint: see ModelCost.
    """
    calls = sum(isinstance(work, BoundCall) for work in works)
    if calls >= GRAPH_LAUNCHES or len(works) > MOST_WORK:
        return list(works)
    fused = _fused(plan, works, CooperativeFuser(plan, works, device, footprint))
    return fused if _launches(fused) < GRAPH_LAUNCHES else list(works)


def _launches(works: Sequence[Work]) -> int:
    """How many there will be: kernels of one level share a launch if their blocks are alike (pipeline's packing)."""
    waits = nx.DiGraph(_data_edges(works))
    waits.add_nodes_from(range(len(works)))
    launches: set[tuple[int, int, int]] = set()
    for level, members in enumerate(nx.topological_generations(waits)):
        for i in members:
            work = works[i]
            alone = isinstance(work, BoundCall) or work.program.alone or work.program.cluster > 1 or bool(
                work.shared_bytes)
            launches.add((level, 0 if isinstance(work, BoundCall) else work.program.threads, i if alone else -1))
    return len(launches)


def _fused(plan: StitchPlan, works: Sequence[Work], fuser: CooperativeFuser) -> list[Work]:
    """The work with kernels fused where that leaves fewer launches."""
    data = list(_data_edges(works))
    edges = [*data, *_update_edges(plan.graph, works)]
    fused: list[tuple[list[int], LoweredKernel]] = []
    best, launches = list(works), _launches(works)
    for part in _parts(works, data):
        for found in fuser.kernels(part):
            trial = _in_order(works, edges, [*fused, found])
            if trial is not None and (fewer := _launches(trial)) < launches:  # else they share launches as it is
                fused.append(found)
                best, launches = trial, fewer
    return best


def _in_order(works: Sequence[Work], edges: Sequence[Edge], fused: Sequence[tuple[list[int], LoweredKernel]]
              ) -> list[Work] | None:
    """The work with fused kernels in the place of their members; None if they would wait for each other."""
    groups = AcyclicContraction(range(len(works)), edges)
    if not all(groups.merge(members[0], i) for members, _ in fused for i in members[1:]):
        return None
    place = {groups.find(members[0]): kernel for members, kernel in fused}
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
    schedule = kernel.schedule
    if schedule.groups or family_of(schedule).with_threads is None:
        return False
    domain, pattern = schedule.domain, schedule.pattern
    known = {*pattern.reads(), *pattern.outputs}  # not so where a small matmul was inlined
    return (kernel.program.grid > 0 and not kernel.program.alone and kernel.program.cluster == 1
            and not any(isinstance(n, SymbolicDim) for b in kernel.program.buffers
                        for n in (b.size, domain.rows, domain.cols))
            and all(node in known for node, _ in kernel.arguments))
