"""What a plan has to be: on random graphs, of single parts with made-up times, of large regions planned by estimates,
of unrolled loops; and what planning takes, in counts that no machine changes."""

from __future__ import annotations

import cProfile
import pstats
import random
from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.differential.runner import compare, keys_of, random_values, reference, region, run_host
from tests.planning.dags import MadeUpTimes, is_convex, part_of, random_graph, random_nodes
from tests.planning.test_ilp_solver import best_by_brute_force
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region, passes
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.text_format import structural_key
from tf_stitch.libraries.registry import LIBRARIES
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.pass_manager import run_passes
from tf_stitch.planning.candidates import GrowthOptions, candidates
from tf_stitch.planning.dependence import Edge, dependencies, order_groups
from tf_stitch.planning.free_nodes import plannable
from tf_stitch.planning.greedy_solver import solve_greedily
from tf_stitch.planning.part import Part, bits
from tf_stitch.planning.pattern import Pattern
from tf_stitch.planning.planner import FEW, PlanOptions, plan_part, plan_region
from tf_stitch.planning.selection import Selection
from tf_stitch.planning.stitch_plan import StitchPlan
from tools.benchmark import made_up_times
from tools.benchmark.planning_graphs import GENERATORS

SEEDS = range(24)
FAST_MODE = CompileOptions(CPU, PlanOptions(careful=0))
B, F32 = Builder(), DType.F32


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
    assert report is None or report.estimated == report.parts


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


def lstm(steps: int, rows: int, units: int) -> TensorGraph:
    """Outputs of all steps of a layer."""
    x = B.input("x:0", F32, (steps, rows, units))
    kernel, recurrent = (B.variable(name, F32, (units, 4 * units)) for name in ("kernel", "recurrent"))
    h, c = (B.input(f"{name}:0", F32, (rows, units)) for name in "hc")
    outputs: list[Node] = []
    for t in range(steps):
        now = B.reshape(B.slice(x, (t, 0, 0), (1, 1, 1), (1, rows, units)), (rows, units))
        z = B.add(B.dot(now, kernel), B.dot(h, recurrent))
        i, f, g, o = (B.slice(z, (0, n * units), (1, 1), (rows, units)) for n in range(4))
        c = B.add(B.mul(B.op(K.SIGMOID, f), c), B.mul(B.op(K.SIGMOID, i), B.op(K.TANH, g)))
        h = B.mul(B.op(K.SIGMOID, o), B.op(K.TANH, c))
        outputs.append(h)
    return region("lstm", [B.concat(outputs, 0)])


def planned(steps: int, rows: int, units: int, **options: int) -> CompiledRegion:
    graph = lstm(steps, rows, units)
    return compile_region(graph, *keys_of(graph), CompileOptions(H200, PlanOptions(**options)))


def planned_with_care(made: CompiledRegion) -> bool:
    assert made.plan.solver is not None
    return made.plan.solver.estimated == 0


@pytest.mark.parametrize("rows", [1, 16])
def test_a_step_is_a_matmul_and_a_kernel(rows: int) -> None:
    """Matmuls of one row are sums, and all of them wait for each other: windows of one part of the plan."""
    steps = 24
    made = planned(steps, rows, 64)
    assert len(made.kernels) + len(made.calls) <= 2 * steps + 4
    assert planned_with_care(made)


def test_a_region_of_many_equal_parts_is_planned_with_care() -> None:
    """Of 24 steps, which are planned once."""
    assert planned_with_care(planned(24, 64, 256, careful=100))
    assert not planned_with_care(planned(24, 64, 256, careful=10))


def control_edges(rng: random.Random, count: int) -> tuple[Edge, ...]:
    """Some, along the order of the nodes."""
    pairs = (sorted(rng.sample(range(count), 2)) for _ in range(rng.randint(0, 3)))
    return tuple((a, b) for a, b in pairs)


def random_part(rng: random.Random, count: int) -> Part:
    return part_of(random_nodes(rng, count), MadeUpTimes(rng.choice((0.7, 1.0, 1.5))), control_edges(rng, count))


@given(st.randoms(use_true_random=False))
def test_groups_are_disjoint_convex_and_acyclic_through_control_edges(rng: random.Random) -> None:
    count = rng.randint(2, 40)
    part = random_part(rng, count)
    plan = plan_part(part, PlanOptions())
    owner = {p: g for g, group in enumerate(plan.groups) for p in group}
    assert sorted(p for group in plan.groups for p in group) == list(range(count))
    assert all(is_convex(part, sum(1 << p for p in group)) for group in plan.groups)
    graph = nx.DiGraph((owner[a], owner[b]) for a, b in part.edges if owner[a] != owner[b])
    assert nx.is_directed_acyclic_graph(graph)
    assert all(len(group) == 1 or part.is_exact(sum(1 << p for p in group)) for group in plan.groups)


@given(st.integers(0, 1 << 30))
def test_a_plan_is_the_best_of_its_candidates(seed: int) -> None:
    part, twin = (random_part(same, same.randint(2, 12)) for same in (random.Random(seed), random.Random(seed)))
    report = plan_part(part, PlanOptions()).report
    assert report.status == "optimal"
    assert report.objective_us >= report.greedy_us - 1e-9
    twin.calibrate(PlanOptions().singles)
    masks = candidates(twin, GrowthOptions())  # exact times, which `part` has by now, would lead to others
    if len(masks) <= 12:
        problem = Selection(tuple(frozenset(bits(m)) for m in masks), tuple(part.gain(m) or 0 for m in masks),
                            len(part.nodes), tuple(part.edges))
        problem = replace(problem, least_saved=problem.saved(solve_greedily(problem).chosen))
        assert report.objective_us == pytest.approx(best_by_brute_force(problem))


@pytest.mark.parametrize("seed", range(5))
def test_the_same_part_has_the_same_plan(seed: int) -> None:
    plans = [plan_part(random_part(random.Random(seed), 30), PlanOptions()) for _ in range(2)]
    assert plans[0] == plans[1]


def test_few_patterns_are_timed_exactly() -> None:
    times = MadeUpTimes()
    part = part_of(random_nodes(random.Random(1), 160), times)
    report = plan_part(part, PlanOptions()).report
    assert report.candidates > FEW
    assert times.exact_calls < report.candidates / 2 + 16


def test_wishes_are_kept_unless_the_data_contradict() -> None:
    needs: list[tuple[int, ...]] = [(), (0,), (), ()]
    assert order_groups([[0], [1], [2], [3]], needs, [(3, 2), (1, 0)]) == [0, 1, 3, 2]
    with pytest.raises(ValueError, match="need each other"):
        order_groups([[0, 2], [1]], [(), (0,), (1,)], [])


class Counted(PatternCompiler):
    """Counts nodes of patterns that are timed exactly, once for each time that one is asked for."""

    nodes_timed = 0

    def exact(self, pattern: Pattern) -> float | None:
        self.nodes_timed += len(pattern.nodes)
        return super().exact(pattern)


def timed_per_node(kind: str, nodes: int, options: PlanOptions) -> float:
    graph = run_passes(GENERATORS[kind](nodes), passes(CPU), None)
    times = Counted(CPU, True)
    plan = plan_region(graph, times, LIBRARIES, options)
    return times.nodes_timed / len(plannable(graph, plan.free))


def test_few_patterns_are_timed_for_each_node() -> None:
    assert 1 < timed_per_node("recurrence", 600, PlanOptions()) < 5, \
        "43 where every rung of merging's ladder was tried, 8 where estimates did not count what slices repeat"


def test_a_region_has_so_many_timings_and_no_more() -> None:
    freely = timed_per_node("mesh", 600, PlanOptions())
    little = timed_per_node("mesh", 600, replace(PlanOptions(), nodes_timed=1))
    assert little < freely / 2


@pytest.mark.parametrize(("kind", "most"), [("transformer", 320), ("updates", 280)])
def test_a_node_takes_few_calls_of_functions(kind: str, most: int) -> None:
    graph = run_passes(GENERATORS[kind](2000), passes(H200), None)
    with cProfile.Profile() as profile:
        plan = plan_region(graph, made_up_times.MadeUpTimes(), LIBRARIES, PlanOptions())
    calls = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    assert calls < most * len(plannable(graph, plan.free)), "404 and 330 where every node asked every library"


def sparsemax(rows: int, columns: int) -> TensorGraph:
    """Sorted by ranks, summed up from the largest, cut off: patterns that look well and are no kernels."""
    b, i32 = Builder(), DType.I32
    x = b.op(K.TANH, b.input("x:0", F32, (rows, columns)))
    before = b.op(K.GREATER, b.reshape(x, (rows, 1, columns)), b.reshape(x, (rows, columns, 1)))
    rank = b.reshape(b.sum(b.cast(before, i32), [2]), (rows, 1, columns))
    place = b.sum(b.select(b.op(K.EQUAL, rank, b.iota((1, columns, 1), 1, i32)), b.iota((1, 1, columns), 2, i32),
                           b.constant(0, i32)), [2])
    at = b.add(place, b.mul(b.iota((rows, 1), 0, i32), b.constant(columns, i32)))
    ordered = b.op(K.GATHER, b.reshape(x, (rows * columns,)), at)
    count = b.cast(b.add(b.iota((1, columns), 1, i32), b.constant(1, i32)), F32)
    sums = b.cumsum(ordered, exclusive=False, reverse=False)
    inside = b.cast(b.op(K.GREATER, b.mul(count, ordered), sums), F32)
    size = b.sum(inside, [1])
    least = b.op(K.DIV, b.sum(b.mul(inside, ordered), [1]), size)
    return region("sparsemax", [b.op(K.MAXIMUM, b.sub(x, b.reshape(least, (rows, 1))), b.scalar_like(0, x))])


def test_what_estimates_lead_to_is_no_kernel_for_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def split(plan: StitchPlan, pattern: Pattern) -> list[Pattern]:
        raise AssertionError(f"{pattern} is no kernel")

    monkeypatch.setattr(StitchPlan, "split", split)
    graph = sparsemax(256, 64)
    made = compile_region(graph, *keys_of(graph), CompileOptions(H200, PlanOptions(careful=0)))
    careful = compile_region(graph, *keys_of(graph), CompileOptions(H200))
    assert not planned_with_care(made)
    assert len(made.kernels) <= len(careful.kernels) + 2
