"""Rows of tensors that are updated in place are written by the kernels that compute them.

A scatter in place is a kernel of its own at first: it is not known yet whether its result can lie where the old value
does; if not, it has to copy that, and all threads wait in between. When buffers are placed, that is known. What a
scatter is left with is a launch for a few rows that another kernel has just computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.graph import Node, TensorGraph, make_node, users_of, with_operands
from tf_stitch.ir.op_attrs import Combine, ScatterAttrs
from tf_stitch.ir.op_kinds import CALLED
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.pass_manager import Pass, PassResult, run_passes
from tf_stitch.placement.buffer_plan import BufferPlan
from tf_stitch.planning.acyclic_contraction import AcyclicContraction
from tf_stitch.planning.cost_model import predict_us
from tf_stitch.planning.dependence import dependencies, update_edges
from tf_stitch.planning.free_nodes import live_out, plannable
from tf_stitch.planning.pattern import Pattern, make_pattern
from tf_stitch.planning.plan_groups import in_order, plan_of
from tf_stitch.planning.stitch_plan import StitchPlan

UsOf: TypeAlias = Callable[[Pattern], float | None]


@dataclass(frozen=True)
class RowUpdates:
    """Merges scatters in place into the kernels that compute their rows. After storage is decided.

    Attributes:
        us_of: microseconds of a pattern as one kernel; None if it cannot be one.
        footprint: bytes that a run of the whole region reads and writes (see ModelCost).
        make: passes that make the kernels of the changed plan and decide their storage.
    """

    us_of: UsOf
    device: DeviceSpec
    footprint: int
    make: tuple[Pass[KernelPlan], ...]
    name: str = "row_updates"

    def run(self, kernels: KernelPlan) -> PassResult[KernelPlan]:
        merged = with_row_updates(kernels.plan, kernels.buffers, self.us_of,
                                  lambda kernel: predict_us(kernel.program, self.device, self.footprint))
        if merged is kernels.plan:
            return PassResult(kernels, modified=False)
        changed = run_passes(replace(kernels, plan=merged), self.make)
        if any(map(_rows_only, changed.buffers.copying)):  # in the new order somebody reads the old value later
            return PassResult(kernels, modified=False)
        return PassResult(changed, modified=True)


def _rows_only(scatter: Node) -> bool:
    return isinstance(scatter.attrs, ScatterAttrs) and scatter.attrs.rows_only


def with_row_updates(plan: StitchPlan, buffers: BufferPlan, us_of: UsOf,
                     us_in_place: Callable[[LoweredKernel], float]) -> StitchPlan:
    """The plan with scatters in place merged into the kernels that compute their rows, where one kernel is predicted to
    take less time than the two; itself if there are none. The scatters have to lie where the old values do then.

    Args:
        buffers: the storage of the plan's kernels.
        us_of: microseconds of a pattern as one kernel; None if it cannot be one.
        us_in_place: those of a kernel as it is in `buffers`.
    """
    alone = {pattern: kernel for pattern in plan.patterns if (kernel := _alone(pattern, buffers)) is not None}
    if not alone:
        return plan
    merger = _Merger(plan)
    for pattern, kernel in alone.items():
        merger.merge(pattern, us_in_place(kernel), us_of)
    return merger.plan()


def _alone(pattern: Pattern, buffers: BufferPlan) -> LoweredKernel | None:
    """The kernel of a pattern that is scatters in place, which has nothing but rows to write."""
    if not pattern.outputs or not all(_in_place(node) and node in buffers.writer for node in pattern.outputs):
        return None
    if not buffers.updating.issuperset(pattern.outputs):
        return None
    [writer, *others] = {buffers.writer[node] for node in pattern.outputs}
    kernel = buffers.kernels[writer]
    if others or not isinstance(kernel, LoweredKernel) or kernel.schedule.groups:
        return None
    return kernel


def _in_place(node: Node) -> bool:
    return isinstance(node.attrs, ScatterAttrs) and node.attrs.in_place and node.attrs.combine is Combine.SET


class _Merger:
    """Merges patterns of one plan."""

    def __init__(self, plan: StitchPlan) -> None:
        self._plan, self._nodes = plan, plan.graph.nodes()
        self._place = {node: i for i, node in enumerate(self._nodes)}
        self._users, self._wanted = users_of(self._nodes), frozenset(live_out(plan.graph))
        self._home = {node: i for i, pattern in enumerate(plan.patterns) for node in pattern.nodes}
        work = plannable(plan.graph, plan.free)
        needs = dependencies(self._nodes, work)
        data = [(self._home[work[before]], self._home[node]) for node, befores in zip(work, needs, strict=True)
                for before in befores]
        wishes = [(self._home[work[a]], self._home[work[b]]) for a, b in update_edges(plan.graph, self._nodes, work)]
        self._edges = [*data, *((a, b) for a, b in wishes if a < b)]
        self._groups: dict[int, tuple[int, ...]] = {i: (i,) for i in range(len(plan.patterns))}  # of each pattern
        self._us: dict[tuple[int, ...], float] = {}  # of groups of several
        self._rows_only: dict[Node, Node] = {}

    def merge(self, pattern: Pattern, us: float, us_of: UsOf) -> None:
        """Merges a pattern of scatters with all that compute its rows, if that is faster.

        Args:
            us: of the pattern as a kernel.
        """
        groups = self._sources(pattern)
        group = tuple(sorted({i for source in groups for i in source} | {self._home[pattern.outputs[0]]}))
        if not groups or any(node.category in CALLED for i in group for node in self._plan.patterns[i].nodes):
            return
        scatters = {node: self._with_rows_only(node) for node in pattern.outputs}
        apart = [self._us[source] if source in self._us else us_of(self._plan.patterns[source[0]]) for source in groups]
        whole = us_of(self._as_one(group, self._rows_only | scatters))
        if whole is None or None in apart or whole >= us + sum(t for t in apart if t is not None):
            return
        if not self._in_order([*(g for g in self._groups.values() if len(g) > 1), group]):
            return
        self._groups |= dict.fromkeys(group, group)
        self._us[group] = whole
        self._rows_only |= scatters

    def plan(self) -> StitchPlan:
        """The plan with what was merged."""
        if not self._rows_only:
            return self._plan
        new: dict[Node, Node] = {}
        for node in self._nodes:
            new[node] = with_operands(self._rows_only.get(node, node), tuple(new[o] for o in node.operands))
        graph = self._plan.graph
        changed = TensorGraph(graph.name, [(key, new[node]) for key, node in graph.outputs],
                              [new[node] for node in graph.unread])
        place = {node: i for i, node in enumerate(changed.nodes())}
        groups = [sorted(place[new[node]] for i in group for node in self._plan.patterns[i].nodes)
                  for group in dict.fromkeys(self._groups.values())]
        return in_order(plan_of(changed, groups, self._plan.solver, self._plan.libraries))

    def _sources(self, pattern: Pattern) -> list[tuple[int, ...]]:
        """The groups that compute what the rows are made of."""
        found: dict[tuple[int, ...], None] = {}
        seen, pending = set[Node](), [node.operands[2] for node in pattern.outputs]
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            if pattern.holds(node):
                pending += node.operands
            elif node in self._home:
                found[self._groups[self._home[node]]] = None
        return list(found)

    def _as_one(self, group: Sequence[int], rows_only: Mapping[Node, Node]) -> Pattern:
        nodes = sorted((n for i in group for n in self._plan.patterns[i].nodes), key=self._place.__getitem__)
        made = make_pattern(nodes, self._users, self._wanted, self._plan.free)
        return Pattern(tuple(rows_only.get(n, n) for n in made.nodes), tuple(rows_only.get(n, n) for n in made.outputs),
                       made.free)

    def _in_order(self, groups: Sequence[tuple[int, ...]]) -> bool:
        """Whether no group of patterns waits for itself, those that read an old value first."""
        contraction = AcyclicContraction(range(len(self._plan.patterns)), self._edges)
        return all(contraction.merge(group[0], i) for group in groups for i in group[1:])

    @staticmethod
    def _with_rows_only(scatter: Node) -> Node:
        assert isinstance(scatter.attrs, ScatterAttrs)
        return make_node(scatter.kind, scatter.operands, replace(scatter.attrs, rows_only=True), scatter.loc)
