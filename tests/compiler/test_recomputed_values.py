"""Plans under a budget of memory: what is computed again, when, and by whom."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tests.differential.generator import make_case
from tests.differential.runner import Values, compiled, keys_of, random_values, region, run_host
from tf_stitch.compiler import memory_problem, recipes, recomputed_values
from tf_stitch.compiler.budget_bytes import bytes_of, outside_bytes, waiting_bytes
from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.compiler.memory_problem import planned_values
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.pipeline import compile_region
from tf_stitch.compiler.plan_passes import plan_passes
from tf_stitch.compiler.plan_verifier import verify_plan
from tf_stitch.compiler.recipes import additions
from tf_stitch.compiler.recomputing_plan import RecomputingPlan
from tf_stitch.compiler.stored_plans import StoredPlans
from tf_stitch.config import MemoryBudget
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph, make_node
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.pass_manager import run_passes
from tf_stitch.placement.memory_profile import memory_profile
from tf_stitch.planning.free_nodes import free_nodes
from tf_stitch.planning.matmul_choice import Stitching
from tf_stitch.planning.memory import How
from tf_stitch.planning.memory_program import solve_memory
from tf_stitch.planning.pattern import Pattern
from tf_stitch.planning.plan_groups import in_order, plan_of
from tf_stitch.planning.planner import PlanOptions

B, F32 = Builder(), DType.F32
ROWS, COLUMNS = 1024, 512  # 2 MiB: a GPU's kernel waits until that is read
MIB = 1 << 20
SUMMED = pytest.mark.parametrize("summed", [False, True], ids=["by_element", "summed"])
CASES = pytest.mark.parametrize(("device", "summed"), [(CPU, False), (CPU, True), (H200, True)],
                                ids=["cpu", "cpu_summed", "h200_summed"])
"""A GPU's kernels compute a tanh by themselves, budget or not."""


def kernels_apart(graph: TensorGraph, device: DeviceSpec, memory: MemoryBudget | None = None,
                  stored: StoredPlans | None = None, solver: str = "ilp") -> KernelPlan:
    """A kernel for each node, in the order of the graph."""
    free = free_nodes(graph.nodes())
    groups = [[i] for i, node in enumerate(graph.nodes())
              if node not in free and node.kind not in (OpKind.INPUT, OpKind.VARIABLE, OpKind.ASSIGN)]
    inputs, variables = keys_of(graph)
    options = CompileOptions(device, PlanOptions(solver, barriers=False), memory=memory, stored=stored)
    compiler = PatternCompiler(device, aligned=True)
    kernels = run_passes(KernelPlan(plan_of(graph, groups, None, compiler.libraries), inputs, variables),
                         plan_passes(compiler, options, 0))
    verify_plan(kernels)
    return kernels


def there_and_back(layers: int = 6, summed: bool = False) -> TensorGraph:
    """Values of inputs, which are read once there and once back, the last one first.

    Args:
        summed: along rows, which no reader does itself.
    """
    inputs = [B.input(f"x{i}:0", F32, (ROWS, COLUMNS)) for i in range(layers)]
    values = [B.cumsum(x, False, False) if summed else B.op(OpKind.TANH, x) for x in inputs]
    value = values[0]
    for one in values[1:]:
        value = B.sub(value, one)
    for one in reversed(values):
        value = B.mul(value, one)
    return region("g", [value])


def live(kernels: KernelPlan) -> int:
    return kernels.buffers.live_bytes


@CASES
def test_a_step_takes_less_under_a_budget(device: DeviceSpec, summed: bool) -> None:
    graph = there_and_back(summed=summed)
    before = kernels_apart(graph, device)
    for fraction in (0.8, 0.5):
        after = kernels_apart(graph, device, MemoryBudget(fraction))
        assert live(after) <= bytes_of(MemoryBudget(fraction), before) < live(before)
        values = random_values(graph)
        np.testing.assert_array_equal(interpret(after.plan.graph, values)["o0"], interpret(graph, values)["o0"])


@CASES
def test_a_plan_that_fits_stays(device: DeviceSpec, summed: bool) -> None:
    graph = there_and_back(summed=summed)
    before = kernels_apart(graph, device)
    enough = MemoryBudget(nbytes=outside_bytes(before) + live(before))
    for budget in (MemoryBudget(1.0), enough):
        after = kernels_apart(graph, device, budget)
        assert len(after.work) == len(before.work)
        assert not after.plan.graph.after
    assert live(kernels_apart(graph, device, MemoryBudget(nbytes=enough.nbytes - MIB))) < live(before)


@CASES
def test_the_problem_knows_what_a_plan_takes(device: DeviceSpec, summed: bool) -> None:
    """Before anything is computed again, and after."""
    graph = there_and_back(summed=summed)
    kernels = kernels_apart(graph, device)
    planned = planned_values(kernels, PatternCompiler(device, aligned=True), device.queued)
    problem = planned.problem
    assert problem.peak(problem.all_kept) == live(kernels)
    for part in (0.8, 0.6):
        found = solve_memory(problem, round(part * live(kernels)))
        again = kernels_apart(graph, device, MemoryBudget(
            nbytes=outside_bytes(kernels) + round(part * live(kernels))))
        assert abs(live(again) - found.peak) <= 0.03 * found.peak


def test_what_is_computed_again_waits_until_it_is_read() -> None:
    """Or a GPU, which runs what waits for nothing at once, would have it in memory all the time."""
    graph = there_and_back(summed=True)
    kernels = kernels_apart(graph, H200, MemoryBudget(0.5))
    buffers, after = kernels.buffers, kernels.plan.graph.after
    assert after
    for late, early in after.items():
        written, before = buffers.levels[buffers.writer[late]], buffers.levels[buffers.writer[early]]
        read = min(buffers.levels[i] for i in buffers.reading(late))
        assert before < written < read <= written + 2


def test_a_value_comes_after_another_that_it_is_not_made_of() -> None:
    """One of a few bytes, which a GPU would compute first of all."""
    x = B.input("x:0", F32, (ROWS, COLUMNS))
    early = B.cumsum(B.cumsum(x, False, False), False, True)
    late = B.cumsum(B.input("few:0", F32, (1, COLUMNS)), False, False)
    graph = region("g", [B.add(B.cumsum(early, False, False), late)])
    for after in ({}, {late: early}):
        graph.after = after
        buffers = kernels_apart(graph, H200).buffers
        levels = [buffers.levels[buffers.writer[node]] for node in (early, late)]
        assert levels == [1, 2 if after else 0]


@SUMMED
def test_copies_are_nodes_of_their_own(summed: bool) -> None:
    """Though they are equal, down to their operands."""
    graph = there_and_back(summed=summed)
    kernels = kernels_apart(graph, CPU, MemoryBudget(0.0))
    made = [node for node in kernels.plan.graph.nodes() if node.kind in (OpKind.TANH, OpKind.CUMSUM)]
    assert len(made) > len({node.operands for node in made}) == 6


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_halves_are_made_of_what_their_kernel_had(dtype: DType) -> None:
    """Not of what it stored of that, which was rounded."""
    x = B.input("x:0", dtype, (ROWS, COLUMNS))
    half = B.op(OpKind.SIN, x)
    value = B.op(OpKind.TANH, half)
    graph = region("g", [B.mul(B.neg(B.cumsum(half, False, False)), B.sub(value, half))])
    [*_, last] = graph.nodes()
    place = {node: i for i, node in enumerate(graph.nodes())}
    groups = [[place[half], place[value]], *([i] for node, i in place.items() if node not in (x, half, value))]
    compiler = PatternCompiler(CPU, aligned=True)
    plan = in_order(plan_of(graph, groups, None, compiler.libraries))
    kernels = run_passes(KernelPlan(plan, ("x:0",), ()), plan_passes(compiler, CompileOptions(CPU), 0))
    recipe = planned_values(kernels, compiler, False).recipes[value]
    assert recipe.sources == ((half,) if dtype is DType.F32 else ())
    assert recipe.pattern.nodes == ((value,) if dtype is DType.F32 else (half, value))
    assert last not in recipe.pattern.nodes


def test_readers_that_sum_keep_their_order() -> None:
    """A value is computed by who reads it only if that adds as before."""
    x = B.input("x:0", F32, (ROWS, COLUMNS))
    kernels = kernels_apart(region("g", [B.sum(B.exp(x), [1])]), CPU)
    [exp, total] = kernels.plan.patterns
    schedule = PatternCompiler(CPU, aligned=True).compile(total).schedule
    other = replace(schedule, mapping=replace(schedule.mapping, row_threads=2))
    assert additions(schedule) != additions(other)
    assert recipes.is_order_dependent(total)
    assert not recipes.is_order_dependent(exp)


@pytest.mark.parametrize("same", [True, False])
def test_a_reader_that_would_add_in_another_order_reads_memory(monkeypatch: pytest.MonkeyPatch, same: bool) -> None:
    value = B.op(OpKind.TANH, B.input("x:0", F32, (ROWS, COLUMNS)))
    total = B.sum(value, [1])
    other = B.neg(B.neg(value))
    graph = region("g", [B.op(OpKind.SIN, other), total])
    graph.after = {total: other}
    kernels = kernels_apart(graph, CPU)
    monkeypatch.setattr(recipes, "additions", lambda schedule: 0 if same else object())
    planned = planned_values(kernels, PatternCompiler(CPU, aligned=True), False)
    [time] = [t for p, t in zip(kernels.plan.patterns, planned.times, strict=True) if total in p.nodes]
    [use] = [use for use in planned.problem.values[planned.values.index(value)].uses if use.time == time]
    assert (use.passing_us is not None) == same


def test_a_sum_that_would_change_is_barred(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the next choice does without it."""
    asked = []
    monkeypatch.setattr(RecomputingPlan, "changed_sums", lambda self, compiler: iter([
        (value, one.before) for one in self.successors for value, how in one.due.items() if how is How.PASSING]))
    original = recomputed_values.planned_values

    def noted(kernels, compiler, queued, barred=frozenset()):  # type: ignore[no-untyped-def]
        asked.append(barred)
        return original(kernels, compiler, queued, barred)

    monkeypatch.setattr(recomputed_values, "planned_values", noted)
    after = kernels_apart(there_and_back(), CPU, MemoryBudget(0.5))
    assert len(asked) > 1
    assert asked[0] < asked[1]
    assert live(after) < live(kernels_apart(there_and_back(), CPU)), "kernels of their own compute some"


def test_a_variable_that_is_written_over_is_not_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its old value would need memory of its own. One of a few bytes has it anyway."""
    x, v = B.input("x:0", F32, (ROWS, COLUMNS)), B.variable("v", F32, (ROWS, COLUMNS))
    value = B.op(OpKind.TANH, v)
    new = B.sub(v, B.mul(value, x))
    graph = region("g", [B.mul(B.op(OpKind.SIN, B.neg(new)), value)], {"v": new})
    for small, computed in ((1 << 30, True), (0, False)):
        monkeypatch.setattr(memory_problem, "SMALL_BYTES", small)
        planned = planned_values(kernels_apart(graph, CPU), PatternCompiler(CPU, aligned=True), False)
        [use] = [planned.problem.values[i].uses[-1] for i, node in enumerate(planned.values) if node is value]
        assert use.can_be_computed == computed


def test_activations_are_what_waits_when_most_is_there() -> None:
    kernels = kernels_apart(there_and_back(4), CPU)
    profile = memory_profile(kernels.buffers)
    touched = kernels.buffers.kernels[profile.peak].arguments
    assert waiting_bytes(kernels) == sum(nbytes for node, nbytes in profile.holders
                                         if node not in [argument for argument, _ in touched]) > 0
    assert bytes_of(MemoryBudget(0.5), kernels) == live(kernels) - waiting_bytes(kernels) // 2


def test_a_size_is_for_all_that_a_step_has() -> None:
    x, v = B.input("x:0", F32, (ROWS, COLUMNS)), B.variable("v", F32, (ROWS, COLUMNS))
    kernels = kernels_apart(region("g", [B.exp(x)], {"v": B.add(v, x)}), CPU)
    assert outside_bytes(kernels) == 6 * MIB, "an input, a variable that is updated in place, a result"
    assert bytes_of(MemoryBudget(nbytes=8 * MIB), kernels) == 2 * MIB
    assert bytes_of(MemoryBudget(nbytes=MIB), kernels) == 0


def test_without_a_budget_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recomputed_values, "planned_values", lambda *arguments: pytest.fail("asked"))
    assert live(kernels_apart(there_and_back(), CPU)) > 0


@pytest.mark.parametrize(("device", "seed"), [(CPU, 9), (CPU, 26), (H200, 12), (H200, 26)])
def test_what_adds_is_computed_again_in_its_own_order(device: DeviceSpec, seed: int) -> None:
    """Of a kernel that adds, a part alone may have another schedule: here some parts do."""
    kernels = compiled(make_case(random.Random(seed), 30, 4000).graph, device).planned
    compiler = PatternCompiler(device, aligned=True)
    home = {node: pattern for pattern in kernels.plan.patterns for node in pattern.outputs}
    for value, recipe in planned_values(kernels, compiler, device.queued).recipes.items():
        if not recipe.by_element:
            part, whole = (compiler.compile(pattern).schedule for pattern in (recipe.pattern, home[value]))
            assert additions(part) == additions(whole), value


def test_parts_of_a_matmul_in_tasks_are_computed_again_with_its_bits() -> None:
    """Of a kernel with two results, each alone: both of a matmul that lies nowhere."""
    x, weights = B.input("x:0", F32, (70, 150)), B.input("w:0", F32, (150, 70))
    matmul = make_node(OpKind.DOT, (x, weights), DotAttrs(in_kernel=True))
    results = [B.op(OpKind.TANH, matmul), B.op(OpKind.SIGMOID, matmul)]
    graph = region("g", results)
    free = free_nodes(graph.nodes())
    found = [i for i, node in enumerate(graph.nodes()) if node.kind is not OpKind.INPUT and node not in free]
    compiler = PatternCompiler(CPU, aligned=True)
    plan = plan_of(graph, [found], None, compiler.libraries)
    [whole] = results_of(graph)
    for i, value in enumerate(results):
        recipe = recipes.Recipes(plan, compiler, ()).of(value)
        assert recipe is not None
        assert recipe.pattern.nodes == (matmul, value)
        [alone] = results_of(region("g", [value]))
        np.testing.assert_array_equal(alone["o0"], whole[f"o{i}"])


def results_of(graph: TensorGraph) -> list[Values]:
    """The results of one kernel."""
    options = CompileOptions(CPU, PlanOptions(matmuls=Stitching.ALL))
    found = compile_region(graph, *keys_of(graph), options)
    return [run_host(graph, found, random_values(graph)) for _ in found.kernels]


def test_a_kernel_that_adds_by_its_tiles_is_computed_again_as_it_is() -> None:
    """A GPU's kernel of a matmul."""
    matmul = make_node(OpKind.DOT, (B.input("a:0", F32, (64, 64)), B.input("b:0", F32, (64, 64))),
                       DotAttrs(in_kernel=True))
    pattern = Pattern((matmul, value := B.op(OpKind.TANH, matmul)), (matmul, value), frozenset())
    assert recipes.may_change(PatternCompiler(CPU, aligned=True), pattern)
    assert not recipes.may_change(PatternCompiler(H200, aligned=True), pattern)
