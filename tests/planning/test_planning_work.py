"""What planning takes, in counts that no machine changes."""

from __future__ import annotations

import cProfile
import pstats
from dataclasses import replace

import pytest

from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.pipeline import passes
from tf_stitch.device.spec import CPU, H200
from tf_stitch.libraries.registry import LIBRARIES
from tf_stitch.pass_manager import run_passes
from tf_stitch.planning.planner import PlanOptions, plan_region
from tf_stitch.planning.stitch_plan import Pattern, plannable
from tools.benchmark.planning_graphs import GENERATORS, recurrence
from tools.planning_benchmark import MadeUpTimes


class Counted(PatternCompiler):
    """Counts nodes of patterns that are timed exactly, once for each time that one is asked for."""

    nodes_timed = 0

    def exact(self, pattern: Pattern) -> float | None:
        self.nodes_timed += len(pattern.nodes)
        return super().exact(pattern)


def timed_per_node(nodes: int, options: PlanOptions) -> float:
    graph = run_passes(recurrence(nodes), passes(CPU), None)
    times = Counted(CPU, True)
    plan = plan_region(graph, times, LIBRARIES, options)
    return times.nodes_timed / len(plannable(graph, plan.free))


@pytest.fixture(scope="module")
def freely() -> float:
    return timed_per_node(600, PlanOptions())


def test_few_patterns_are_timed_for_each_node(freely: float) -> None:
    assert 1 < freely < 15, "43 where every rung of merging's ladder was tried"


def test_a_region_has_so_many_timings_and_no_more(freely: float) -> None:
    little = timed_per_node(600, replace(PlanOptions(), nodes_timed=1))
    assert little < freely / 2


@pytest.mark.parametrize(("kind", "most"), [("transformer", 320), ("updates", 280)])
def test_a_node_takes_few_calls_of_functions(kind: str, most: int) -> None:
    graph = run_passes(GENERATORS[kind](2000), passes(H200), None)
    with cProfile.Profile() as profile:
        plan = plan_region(graph, MadeUpTimes(), LIBRARIES, PlanOptions())
    calls = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    assert calls < most * len(plannable(graph, plan.free)), "404 and 330 where every node asked every library"
