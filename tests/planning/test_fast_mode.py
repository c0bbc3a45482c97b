"""Large regions: planned by estimates, and split where an estimate was wrong."""

from __future__ import annotations

import pytest

from tests.differential.runner import compare, keys_of, random_values, reference, run_host
from tests.planning.dags import random_graph
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.pipeline import CompiledRegion, CompileOptions, compile_region
from tf_stitch.device.spec import CPU
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.planning.stitch_plan import Pattern

FAST_MODE = CompileOptions(CPU, PlanOptions(careful=0))


def check(graph: TensorGraph) -> CompiledRegion:
    values = random_values(graph)
    want, allowed = reference(graph, values)
    result = compile_region(graph, *keys_of(graph), FAST_MODE)
    if result.source:
        compare(graph, run_host(graph, result, values), want, allowed, "compiled CPU code")
    return result


@pytest.mark.parametrize("seed", range(3))
def test_a_plan_by_estimates_is_right(seed: int) -> None:
    report = check(random_graph(seed)).plan.solver
    assert report is None or not report.exact


@pytest.mark.parametrize("seed", range(3))
def test_a_pattern_that_is_no_kernel_is_split(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = PatternCompiler.compile

    def compile_alone(self: PatternCompiler, pattern: Pattern) -> LoweredKernel:
        if len(pattern.nodes) > 1:
            raise ScheduleError("no kernel after all")
        return real(self, pattern)

    monkeypatch.setattr(PatternCompiler, "compile", compile_alone)
    result = check(random_graph(seed))
    assert {len(p.nodes) for p in result.plan.patterns} <= {1}
