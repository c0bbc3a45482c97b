"""What a plan has to be, on random graphs."""

from __future__ import annotations

import networkx as nx
import pytest

from tests.differential.runner import keys_of, region
from tests.planning.dags import random_graph
from tf_stitch.compiler.pipeline import CompiledRegion, CompileOptions, compile_region
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.text_format import structural_key
from tf_stitch.planning.dependence import dependencies
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.planning.stitch_plan import StitchPlan, plannable

SEEDS = range(24)


def compiled(seed: int, device: DeviceSpec, solver: str) -> CompiledRegion:
    graph = random_graph(seed)
    return compile_region(graph, *keys_of(graph), CompileOptions(device, PlanOptions(solver)))


def contracted_graph(plan: StitchPlan) -> nx.DiGraph:
    work = plannable(plan.graph, plan.free)
    owner = {n: i for i, p in enumerate(plan.patterns) for n in p.nodes}
    graph = nx.DiGraph()
    for node, before in zip(work, dependencies(plan.graph.nodes(), work), strict=True):
        graph.add_edges_from((owner[work[b]], owner[node]) for b in before if owner[work[b]] != owner[node])
    return graph


def ancestors(nodes: list[Node]) -> dict[Node, set[Node]]:
    above: dict[Node, set[Node]] = {}
    for n in nodes:
        above[n] = set(n.operands).union(*(above[o] for o in n.operands))
    return above


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
@pytest.mark.parametrize("solver", ["ilp", "greedy"])
@pytest.mark.parametrize("seed", SEEDS)
def test_patterns_partition_the_work_and_can_run(seed: int, solver: str, device: DeviceSpec) -> None:
    plan = compiled(seed, device, solver).plan
    work = plannable(plan.graph, plan.free)
    placed = [n for p in plan.patterns for n in p.nodes]
    assert len(placed) == len(set(placed)), "patterns share no node"
    assert set(placed) == set(work), "every node with work in it has a pattern"
    assert nx.is_directed_acyclic_graph(contracted_graph(plan))
    above = ancestors(plan.graph.nodes())
    for pattern in plan.patterns:
        members = set(pattern.nodes)
        between = [n for n in work if n not in members and above[n] & members and any(n in above[m] for m in members)]
        assert not between, "a pattern is convex"
    ready = {n for n in plan.graph.nodes() if n not in set(work)}
    for pattern in plan.patterns:
        assert set(pattern.reads()) <= ready, "a pattern runs after what it reads"
        ready |= set(pattern.nodes)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_integer_program_is_no_worse_than_greedy(seed: int) -> None:
    result = compiled(seed, H200, "ilp")
    report = result.plan.solver
    if report is None or report.status != "optimal":
        return
    assert report.kernels == sum(max(1, sum(map(len, kernel.schedule.groups))) for kernel in result.kernels)
    assert report.gap == pytest.approx(0, abs=1e-9)
    assert report.objective_us >= report.greedy_us - 1e-6
    assert report.bound_us >= report.objective_us - 1e-6


def text(plan: StitchPlan) -> list[str]:
    return [structural_key(p.nodes, p.outputs) for p in plan.patterns]


@pytest.mark.parametrize("seed", range(8))
def test_the_same_graph_gives_the_same_plan_and_source(seed: int) -> None:
    a, b = compiled(seed, H200, "ilp"), compiled(seed, H200, "ilp")
    assert text(a.plan) == text(b.plan)
    assert a.source == b.source
    assert a.executable == b.executable


def test_independent_updates_are_planned_once_each() -> None:
    b = Builder()
    outputs = [b.exp(b.add(b.input(f"x{i}:0", DType.F32, (64,)),
                           b.input(f"y{i}:0", DType.F32, (64,)))) for i in range(5)]
    graph = region("parts", outputs)
    plan = compile_region(graph, *keys_of(graph), CompileOptions(H200)).plan
    assert [len(p.nodes) for p in plan.patterns] == [2] * 5
    assert plan.solver is not None
    assert plan.solver.status == "optimal"


def test_constants_and_single_elements_belong_to_no_pattern() -> None:
    b = Builder()
    rate = b.mul(b.input("rate:0", DType.F32, ()), b.constant(0.5, DType.F32))
    graph = region("free", [b.mul(b.input("x:0", DType.F32, (64,)), rate)])
    plan = compile_region(graph, *keys_of(graph), CompileOptions(CPU)).plan
    assert [[n.kind.value for n in p.nodes] for p in plan.patterns] == [["mul"]]
    assert {n.kind.value for n in plan.free} == {"constant", "mul"}
