"""Plans of graphs that were planned before: a new size of a known dimension is planned as the last one was."""

from __future__ import annotations

import threading

from tf_stitch.ir.graph import TensorGraph, users_of
from tf_stitch.ir.text_format import anonymous_text
from tf_stitch.planning.stitch_plan import StitchPlan, delivered, free_nodes, make_pattern


class PlanMemory:
    """Patterns by the text of their graph, in which sizes that change are symbols. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[StitchPlan, list[list[int]]]] = {}
        self._lock = threading.Lock()

    def recall(self, graph: TensorGraph) -> StitchPlan | None:
        """The plan of a graph of equal text, for this one."""
        with self._lock:
            known = self._known.get(anonymous_text(graph))
        if known is None:
            return None
        plan, groups = known
        nodes = graph.nodes()
        free, users, wanted = free_nodes(nodes), users_of(nodes), frozenset(delivered(graph))
        patterns = [make_pattern([nodes[i] for i in group], users, wanted, free) for group in groups]
        return StitchPlan(graph, patterns, plan.solver, free)

    def keep(self, plan: StitchPlan) -> None:
        """Remembers a plan."""
        place = {n: i for i, n in enumerate(plan.graph.nodes())}
        groups = [[place[n] for n in pattern.nodes] for pattern in plan.patterns]
        with self._lock:
            self._known[anonymous_text(plan.graph)] = StitchPlan(TensorGraph(""), [], plan.solver), groups
