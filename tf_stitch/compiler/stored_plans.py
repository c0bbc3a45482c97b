"""Plans on disk: what an earlier process planned is read, and leads to kernels that it has built."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.text_format import anonymous_text
from tf_stitch.libraries.call import Library
from tf_stitch.libraries.registry import LIBRARIES
from tf_stitch.planning.plan_groups import groups_of, plan_of
from tf_stitch.planning.solver_report import SolverReport
from tf_stitch.planning.stitch_plan import StitchPlan
from tf_stitch.runtime.cache_key import cache_key, package_digest
from tf_stitch.runtime.kernel_cache import KernelCache

SUFFIX = ".plan"


@dataclass(frozen=True)
class StoredPlans:
    """Plans made under one set of circumstances. Thread-safe.

    Attributes:
        circumstances: what a plan depends on beside its graph and tf_stitch itself: the device and what is known of it,
            options, measured times.
    """

    cache: KernelCache
    circumstances: tuple[str, ...]

    def recall(self, graph: TensorGraph, libraries: tuple[Library, ...] = LIBRARIES) -> StitchPlan | None:
        """The plan of an equal graph of equal sizes, made with the same libraries. One that makes no sense is removed,
        and counted as damaged."""
        return self.cache.parsed(self._key(graph), SUFFIX, lambda text: _parse(text, graph, libraries))

    def keep(self, plan: StitchPlan) -> None:
        """Stores a plan, unless the solver that was asked for had no part in it. One that can be stored nowhere is made
        again by who needs it; the cache's `problem` then says why."""
        if plan.solver is not None and plan.solver.status == "greedy" != plan.solver.solver:
            return
        solver = None if plan.solver is None else asdict(plan.solver)
        text = json.dumps({"solver": solver, "groups": groups_of(plan)})
        self.cache.keep(self._key(plan.graph), SUFFIX, text.encode())

    def _key(self, graph: TensorGraph) -> str:
        sizes = [int(d) for node in graph.inputs() for d in node.type.dims]  # the text may have symbols
        return cache_key(f"{anonymous_text(graph)}\n{sizes}", "plan", "", self.circumstances, "", package_digest())


def _parse(text: bytes, graph: TensorGraph, libraries: tuple[Library, ...]) -> StitchPlan:
    """Raises ValueError, LookupError or TypeError if the text is no plan of the graph."""
    document = json.loads(text)
    solver = document["solver"]
    return plan_of(graph, document["groups"], None if solver is None else SolverReport(**solver), libraries)
