"""Plans of graphs that were planned before: a new size of a known dimension is planned as the first one was."""

from __future__ import annotations

import threading

from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.libraries.call import Library
from tf_stitch.libraries.registry import LIBRARIES
from tf_stitch.planning.plan_groups import Groups, groups_of, plan_of
from tf_stitch.planning.solver_report import SolverReport
from tf_stitch.planning.stitch_plan import StitchPlan


class PlanMemory:
    """Patterns by the structure of their graph: sizes may differ, also in the parts that reductions are split into.
    Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[SolverReport | None, Groups]] = {}
        self._lock = threading.Lock()

    def recall(self, graph: TensorGraph, libraries: tuple[Library, ...] = LIBRARIES) -> StitchPlan | None:
        """The plan of a graph of equal structure, for this one; the libraries are those it was made with."""
        with self._lock:
            known = self._known.get(_structure(graph))
        try:
            return None if known is None else plan_of(graph, known[1], known[0], libraries)
        except ValueError:  # made when a size that has begun to change was 1
            return None

    def keep(self, plan: StitchPlan) -> None:
        """Remembers a plan."""
        groups = groups_of(plan)
        with self._lock:
            self._known[_structure(plan.graph)] = plan.solver, groups


def _structure(graph: TensorGraph) -> str:
    """Text equal for graphs that differ in sizes alone."""
    number: dict[Node, int] = {}
    lines: list[str] = []
    for node in graph.nodes():
        number[node] = len(number)
        operands = " ".join(str(number[o]) for o in node.operands)
        lines.append(f"{node.kind.value} {operands}: {node.type.dtype.value} {node.type.rank}")
    lines += [f"out {number[node]}" for _, node in graph.outputs]
    return "\n".join(lines)
