"""Plans of graphs that were planned before: a new size of a known dimension is planned as the last one was."""

from __future__ import annotations

import threading

from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.text_format import anonymous_text
from tf_stitch.planning.plan_groups import Groups, groups_of, plan_of
from tf_stitch.planning.stitch_plan import SolverReport, StitchPlan


class PlanMemory:
    """Patterns by the text of their graph, in which sizes that change are symbols. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[SolverReport | None, Groups]] = {}
        self._lock = threading.Lock()

    def recall(self, graph: TensorGraph) -> StitchPlan | None:
        """The plan of a graph of equal text, for this one."""
        with self._lock:
            known = self._known.get(anonymous_text(graph))
        return None if known is None else plan_of(graph, known[1], known[0])

    def keep(self, plan: StitchPlan) -> None:
        """Remembers a plan."""
        groups = groups_of(plan)
        with self._lock:
            self._known[anonymous_text(plan.graph)] = plan.solver, groups
