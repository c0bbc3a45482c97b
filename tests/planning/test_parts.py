"""Plans of single parts with made-up times: what has to hold whatever the times are."""

from __future__ import annotations

import random
from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.planning.dags import MadeUpTimes, is_convex, part_of, random_nodes
from tests.planning.test_solvers import best_by_brute_force
from tf_stitch.planning.candidates import GrowthOptions, candidates
from tf_stitch.planning.dependence import Edge, order_groups
from tf_stitch.planning.greedy_solver import solve_greedily
from tf_stitch.planning.part import Part, bits
from tf_stitch.planning.planner import FEW, PlanOptions, plan_part
from tf_stitch.planning.selection import Selection


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
