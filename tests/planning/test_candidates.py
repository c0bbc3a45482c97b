"""Where candidate patterns come from."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.differential.runner import check_all, keys_of, random_values, region
from tests.planning.dags import B, MadeUpTimes, closure, is_convex, part_of, random_nodes
from tests.planning.paper_graphs import MOTIVATING, motivating_example, motivating_pattern
from tests.support.whole_patterns import whole
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.pipeline import CompiledRegion, compile_region
from tf_stitch.device.spec import H200
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.interpreter import interpret
from tf_stitch.passes.inline_small_matmuls import expand_dot
from tf_stitch.planning import substitution_fusion
from tf_stitch.planning.candidates import GrowthOptions, candidates
from tf_stitch.planning.exploratory_fusion import ExploreOptions, explore
from tf_stitch.planning.merging import MergeOptions, merged_patterns
from tf_stitch.planning.part import bits, mask_of
from tf_stitch.planning.pattern import Pattern
from tf_stitch.planning.planner import PlanOptions, plan_part
from tf_stitch.planning.substitution_fusion import substitution_patterns

F32 = DType.F32


def planned(growth: GrowthOptions) -> CompiledRegion:
    graph = motivating_example()
    return compile_region(graph, *keys_of(graph), CompileOptions(H200, PlanOptions(growth=growth)))


def ops(result: CompiledRegion) -> list[set[str]]:
    """Names of the paper's ops in each pattern."""
    return [{n.loc.node for n in p.nodes} & set(MOTIVATING) for p in result.plan.patterns]


def test_the_motivating_example_is_one_kernel() -> None:
    """FusionStitching section 3.1, by the paper's two sources."""
    result = planned(GrowthOptions(merging=False))
    assert set(MOTIVATING) in ops(result)
    kernel = next(k for k in result.kernels if "tanh_1" in k.program.title)
    large = 16 * 64 * 512
    assert [n.type.numel for n in kernel.schedule.pattern.outputs] == [16 * 64] * 4, "dot_1's result stays inside"
    assert sum(b.size == large for b in kernel.program.buffers) == 1, "the mask alone is as large"
    assert result.plan.solver is not None
    assert result.plan.solver.status == "optimal"


def test_the_motivating_pattern_at_the_papers_size() -> None:
    """dot_2 has two columns: a row has two results of it."""
    graph = motivating_pattern()
    large, small = 15616 * 94 * 94, 15616 * 94 * 2
    result = compile_region(graph, *keys_of(graph), CompileOptions(H200))
    assert not result.calls
    assert all(b.size <= small for kernel in result.kernels for b in kernel.program.buffers)
    assert 4 * small < 12e6 < 552e6 == round(4 * large, -6)
    kernel = PatternCompiler(H200, True).compile(whole(*(node for _, node in graph.outputs)))
    assert sorted(n.type.numel for n in kernel.schedule.pattern.outputs) == [small // 2, small // 2, small, small]


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
def test_the_motivating_pattern_is_right(width: int) -> None:
    check_all(motivating_pattern(3, 5, 2, 20, width), interpret_cpu=True, interpret_gpu=True)


class Spoilt:
    """Every set seems to take as long as one node. In truth those do not that hold one of the ends of `nodes`
    beside others."""

    least_us = 0.0
    profile = H200.profile

    def __init__(self, nodes: list[Node]) -> None:
        self._ends = {nodes[0], nodes[-1]}

    def estimate(self, pattern: Pattern) -> float | None:
        return 1.0

    def exact(self, pattern: Pattern) -> float | None:
        return 100.0 if len(pattern.nodes) > 1 and self._ends & set(pattern.nodes) else 1.0


def test_patterns_are_grown_anew_around_what_spoils_a_kernel() -> None:
    """Merging from both ends of a chain, all sets but one hold a node that no kernel should hold beside others."""
    nodes = [B.exp(B.input("x", F32, (64,)))]
    while len(nodes) < 8:
        nodes.append(B.exp(nodes[-1]))
    part = part_of(nodes, times=Spoilt(nodes))
    growth = GrowthOptions(substitution=False, exploratory=False)
    groups = plan_part(part, PlanOptions(growth=growth)).groups
    assert sorted(groups, key=len) == [(0,), (7,), (1, 2, 3, 4, 5, 6)]


def test_substitution_alone_misses_the_motivating_example() -> None:
    alone = planned(GrowthOptions(merging=False, exploratory=False))
    assert set(MOTIVATING) not in ops(alone)
    both = planned(GrowthOptions(merging=False))
    assert alone.plan.solver is not None
    assert both.plan.solver is not None
    assert both.plan.solver.objective_us > alone.plan.solver.objective_us


def test_all_sources_together_keep_the_large_value_inside() -> None:
    result = planned(GrowthOptions())
    assert any({"dot_1", "reduce_1", "reduce_2", "dot_2"} <= found for found in ops(result))


def test_the_motivating_example_is_right() -> None:
    check_all(motivating_example(2, 3, 4, 20), interpret_gpu=True)


def chain(count: int, elements: int = 1 << 19) -> list[Node]:
    nodes = [B.exp(B.input("x", F32, (elements,)))]
    while len(nodes) < count:
        nodes.append(B.exp(nodes[-1]))
    return nodes


def test_substitution_cuts_at_more_ops_with_each_step() -> None:
    x = B.input("x", F32, (8, 4, 16))
    dot = B.dot(B.exp(x), B.input("y", F32, (8, 16, 4)))  # small: 4 columns
    column = B.sum(B.neg(dot), [0, 1])
    end = B.exp(column)
    nodes = [dot.operands[0], dot, column.operands[0], column, end]
    masks = substitution_patterns(part_of(nodes, MadeUpTimes()))
    assert mask_of(range(5)) in masks, "nothing cuts"
    assert mask_of([2, 3, 4]) in masks, "the small matmul cuts"
    assert not any(masks.count(m) > 1 for m in masks)
    assert all(not m & 0b10 or m == 0b11111 for m in masks), "a partition op is fused with nothing"


def test_every_step_asks_a_node_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, Node]] = []

    def no(step: int, node: Node) -> bool:
        asked.append((step, node))
        return False

    steps = 4
    monkeypatch.setattr(substitution_fusion, "GROWTH", tuple(partial(no, step) for step in range(steps)))
    nodes = chain(5)
    substitution_patterns(part_of(nodes, MadeUpTimes()))
    assert sorted(asked, key=lambda a: (a[0], nodes.index(a[1]))) == list(product(range(steps), nodes))


@given(st.randoms(use_true_random=False))
def test_every_source_gives_convex_sets(rng: random.Random) -> None:
    part = part_of(random_nodes(rng, rng.randint(2, 30)), MadeUpTimes())
    for masks in (substitution_patterns(part), explore(part, ExploreOptions(large=0)),
                  merged_patterns(part, MergeOptions())):
        assert all(is_convex(part, m) and m.bit_count() > 1 for m in masks)
        assert len(set(masks)) == len(masks)
    assert all((part.gain(m) or 0) > 0 for m in candidates(part, GrowthOptions()))


class Transposes:
    """Every set of nodes in a chain of transposes can be one kernel, of 2 us and what is `spent` on it beside."""

    def __init__(self, count: int, spent: Callable[[Pattern], float], least_us: float = 2.0) -> None:
        self.least_us, self._spent, self.asked = least_us, spent, 0
        self.profile = H200.profile
        self.nodes = [B.transpose(B.input("x", F32, (64, 48)), (1, 0))]
        while len(self.nodes) < count:
            self.nodes.append(B.transpose(self.nodes[-1], (1, 0)))

    def exact(self, pattern: Pattern) -> float | None:
        self.asked += 1
        return 2.0 + self._spent(pattern)

    estimate = exact


@pytest.mark.parametrize(("spent", "merge", "unbeaten"), [
    (2.1, MergeOptions(), True),  # 4.1 us; two kernels take 4, and are one kernel more
    (2.8, MergeOptions(), False),
    (2.8, MergeOptions(size=3), True),  # three kernels, if none has more than three of the eight nodes
    (7.7, MergeOptions(size=3), False)])
def test_nothing_is_grown_where_the_whole_takes_no_longer_than_launches(spent: float, merge: MergeOptions,
                                                                       unbeaten: bool) -> None:
    times = Transposes(8, lambda pattern: spent / 7 * (len(pattern.nodes) - 1))
    part = part_of(times.nodes, times)
    found = candidates(part, GrowthOptions(exploratory=False, merge=merge))
    assert found[0] == part.everything
    assert (len(found) == 1) == unbeaten
    assert (times.asked <= 10) == unbeaten, "each node alone, and all of them twice"


@given(st.integers(0, 1 << 30), st.integers(2, 9))
def test_growing_nothing_costs_no_gain(seed: int, count: int) -> None:
    """The plan is as good as where every candidate is grown, whatever sets of nodes take."""
    def spent(pattern: Pattern) -> float:
        places = [nodes.index(node) for node in pattern.nodes]
        return random.Random(f"{seed} {places}").uniform(0, 6) if len(places) > 1 else 0.0

    gains = []
    for least_us in (2.0, 0.0):
        times = Transposes(count, spent, least_us)
        nodes = times.nodes
        gains.append(plan_part(part_of(nodes, times), PlanOptions()).report.objective_us)
    assert gains[0] == pytest.approx(gains[1])


@pytest.mark.parametrize(("limits", "largest"), [(ExploreOptions(size=5), 5), (ExploreOptions(budget=4), 4),
                                                 (ExploreOptions(seeds=0), 0), (ExploreOptions(operands=0), 0),
                                                 (ExploreOptions(large=1 << 40), 0), (ExploreOptions(), 12)])
def test_exploration_keeps_its_limits(limits: ExploreOptions, largest: int) -> None:
    found = explore(part_of(chain(20), MadeUpTimes()), limits)
    assert max((m.bit_count() for m in found), default=0) == largest


@given(st.randoms(use_true_random=False))
def test_traffic_is_that_of_the_pattern(rng: random.Random) -> None:
    part = part_of(random_nodes(rng, 12), MadeUpTimes())
    for _ in range(5):
        mask = closure(part, mask_of(rng.sample(range(12), 3)))
        pattern = part.pattern(mask)
        assert part.traffic(mask) == sum(n.type.nbytes for n in (*pattern.reads(), *pattern.outputs))
        hull = part.hull(mask)
        for i in bits(part.neighbours(mask)):
            assert hull.takes(i) == is_convex(part, mask | 1 << i)


@pytest.mark.parametrize("turned", ["no", "left", "right"])
def test_several_columns_are_inlined(turned: str) -> None:
    x = B.input("x", F32, (2, 20, 5) if turned == "left" else (2, 5, 20))
    y = B.input("y", F32, (2, 3, 20) if turned == "right" else (2, 20, 3))
    dot = B.dot(x, y, turned == "left", turned == "right")
    written = region("columns", [expand_dot(dot, x, y)])
    check_all(written, interpret_gpu=True)
    values = random_values(written)
    got, want = interpret(written, values), interpret(region("matmul", [dot]), values)
    np.testing.assert_allclose(got["o0"], want["o0"], rtol=1e-4, atol=1e-4)


def test_multiplications_are_merged_with_their_sum_before_all_else() -> None:
    """gelu(x) w, summed: whoever took the multiplications alone would write them."""
    x, w = B.input("x", F32, (64, 1)), B.input("w", F32, (64, 32))
    nodes = [B.exp(x)]
    nodes.append(B.mul(nodes[0], w))
    nodes.append(B.sum(nodes[1], [0]))
    part = part_of(nodes, MadeUpTimes())
    assert merged_patterns(part, MergeOptions())[0] == mask_of([1, 2])
