"""Plans for other sizes without passes and planner: where sizes change, both give the same for many of them."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

from tf_stitch.compiler.options import CompileOptions
from tf_stitch.errors import StitchError
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_attrs import ReduceAttrs
from tf_stitch.ir.renumbering import Renumbering
from tf_stitch.ir.symbolic_dims import SymbolicDim, atoms, in_terms_of, size
from tf_stitch.ir.text_format import anonymous_text
from tf_stitch.ir.types import TensorType
from tf_stitch.ir.vector_sizes import dimensions_of_vectors
from tf_stitch.libraries.call import Library
from tf_stitch.passes.two_stage_reductions import separate
from tf_stitch.planning.plan_groups import Groups, groups_of, plan_of
from tf_stitch.planning.solver_report import SolverReport
from tf_stitch.planning.stitch_plan import StitchPlan
from tf_stitch.targets.registry import target_of


class Decisions:
    """What is decided by numbers before patterns are scheduled, where sizes change.

    Args:
        graph: bound to sizes none of which is known to be a multiple.
        multiple: what the sizes of other graphs are then known to be multiples of, if they are.
    """

    def __init__(self, graph: TensorGraph, options: CompileOptions, multiple: int) -> None:
        device = options.device
        self._split = target_of(device).splitting.two_stages(device, options.reuse)
        self._multiple = multiple
        self._vectors = dimensions_of_vectors(graph)
        self._reductions = dict.fromkeys(
            (type_, axes) for type_, axes in _reductions(graph) if any(isinstance(d, SymbolicDim) for d in type_.dims))

    def at(self, sizes: Mapping[str, int]) -> Hashable:
        """Equal for sizes that are alike: the same are multiples, or 1, and reductions are split into as many parts."""
        known = {n: size(n, v, self._multiple if n in self._vectors and v % self._multiple == 0 else 1)
                 for n, v in sizes.items()}
        parts = (self._split.parts(TensorType(t.dtype, tuple(in_terms_of(d, known) for d in t.dims)), axes)
                 for t, axes in self._reductions)
        multiples = frozenset(atom.name for value in known.values() for atom in atoms(value))
        return multiples, frozenset(n for n, v in sizes.items() if v == 1), tuple(max(1, p) for p in parts)


def _reductions(graph: TensorGraph) -> Iterator[tuple[TensorType, tuple[int, ...]]]:
    """What is reduced, and its axes, which adjoin."""
    for node in graph.nodes():
        apart = separate(node)
        for one in (node,) if apart is None else (apart, apart.operands[0]):
            if isinstance(one.attrs, ReduceAttrs):
                yield one.operands[0].type, one.attrs.axes


@dataclass
class _Known:
    """Attributes:
        text: of the planned graph, in terms of sizes; None if sizes that are alike gave two.
        sure: two sizes gave it.
    """

    sizes: Mapping[str, int]
    text: str | None
    graph: TensorGraph
    groups: Groups
    solver: SolverReport | None
    libraries: tuple[Library, ...]
    sure: bool = False


class SizedPlans:
    """A region's plans. Similar sizes give the same graph and plan, in terms of sizes: where two have, it is taken
    for a third, whose types are checked. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[Hashable, _Known] = {}
        self._lock = threading.Lock()

    def plan(self, alike: Hashable, numbers: Mapping[str, int]) -> StitchPlan | None:
        """The plan for sizes like those of earlier plans, if it is known.

        Args:
            alike: equal for sizes that are alike (see Decisions).
            numbers: of the sizes' atoms.
        """
        with self._lock:
            known = self._known.get(alike)
            if known is None or not known.sure:
                return None
        try:
            graph = Renumbering(numbers).graph(known.graph)
        except StitchError:  # it is not for these numbers: passes and planner say why
            return None
        if any(int(node.type.numel) == 0 for node in graph.nodes()):
            return None  # it is folded
        return plan_of(graph, known.groups, known.solver, known.libraries)

    def keep(self, alike: Hashable, sizes: Mapping[str, int], plan: StitchPlan) -> None:
        """Remembers what passes and planner made for some sizes."""
        text, groups = anonymous_text(plan.graph), groups_of(plan)
        with self._lock:
            known = self._known.setdefault(alike, _Known(dict(sizes), text, plan.graph, groups, plan.solver,
                                                         plan.libraries))
            if known.text != text:
                known.text, known.sure = None, False
            else:
                known.sure = known.sure or known.sizes != sizes
