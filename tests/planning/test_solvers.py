"""The integer program against brute force, and the greedy twin."""

from __future__ import annotations

import itertools
import random

import pytest

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.planning.greedy_solver import solve_greedily
from tf_stitch.planning.ilp_solver import solve
from tf_stitch.planning.legality import find_cycle

B = Builder()


def random_problem(seed: int) -> tuple[list[frozenset[Node]], list[float], list[Node]]:
    """Up to ten candidates over a random graph; some close cycles together or alone."""
    rng = random.Random(seed)
    nodes: list[Node] = []
    for i in range(rng.randint(3, 9)):
        sources = [*nodes, B.input(f"x{i}:0", DType.F32, (4,))]
        nodes.append(B.add(rng.choice(sources), rng.choice(sources)))
    candidates = {frozenset(rng.sample(nodes, rng.randint(2, min(4, len(nodes))))): None for _ in range(rng.randint(2,
                                                                                                                    10))}
    convex = [c for c in candidates if find_cycle([c], nodes) is None]
    return convex, [round(rng.uniform(-1, 5), 2) for _ in convex], nodes


def best_by_brute_force(candidates: list[frozenset[Node]], gains: list[float], nodes: list[Node]) -> float:
    best = 0.0
    for size in range(1, len(candidates) + 1):
        for chosen in itertools.combinations(range(len(candidates)), size):
            sets = [candidates[j] for j in chosen]
            if sum(map(len, sets)) == len(frozenset().union(*sets)) and find_cycle(sets, nodes) is None:
                best = max(best, sum(gains[j] for j in chosen))
    return best


@pytest.mark.parametrize("seed", range(40))
def test_the_integer_program_finds_the_best_choice(seed: int) -> None:
    candidates, gains, nodes = random_problem(seed)
    if not candidates:
        return
    choice, greedy = solve(candidates, gains, nodes, 5.0), solve_greedily(candidates, gains, nodes)
    assert choice is not None
    assert choice.status == "optimal"
    assert choice.objective == pytest.approx(best_by_brute_force(candidates, gains, nodes))
    assert choice.objective >= greedy.objective - 1e-9
    assert choice.bound >= choice.objective - 1e-9
    for chosen in (choice.chosen, greedy.chosen):
        sets = [candidates[j] for j in chosen]
        assert sum(map(len, sets)) == len(frozenset().union(*sets)), "chosen candidates share no node"
        assert find_cycle(sets, nodes) is None
    assert solve(candidates, gains, nodes, 5.0) == choice, "the same problem has one answer"


def test_cycles_are_cut_one_by_one() -> None:
    """Fig. 3 of FusionStitching: two patterns that need each other's results."""
    x = B.input("x:0", DType.F32, (4,))
    a, b = B.exp(x), B.neg(x)
    c, d = B.exp(b), B.neg(a)
    crossing = [frozenset((a, c)), frozenset((b, d))]
    nodes = [a, b, c, d]
    assert find_cycle(crossing, nodes) == (0, 1)
    choice = solve(crossing, [3.0, 2.0], nodes, 5.0)
    assert choice is not None
    assert (choice.chosen, choice.cuts, choice.status) == ((0,), 1, "optimal")
