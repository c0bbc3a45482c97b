"""The integer program against brute force, and the greedy twin."""

from __future__ import annotations

import itertools
import math
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_stitch.planning import ilp_solver
from tf_stitch.planning.dependence import Edge
from tf_stitch.planning.greedy_solver import solve_greedily
from tf_stitch.planning.ilp_solver import solve
from tf_stitch.planning.selection import Selection


def random_problem(rng: random.Random, size: int, count: int, reach: int = 12) -> Selection:
    """Candidates over a random graph, each near one place; some close cycles together, none alone."""
    edges = tuple((i, j) for i in range(size) for j in range(i + 1, min(size, i + reach)) if rng.random() < 0.3)
    found: dict[frozenset[int], None] = {}
    for _ in range(count):
        near = range(start := rng.randrange(size), min(size, start + 6))
        found[frozenset(rng.sample(near, min(len(near), rng.randint(2, 4))))] = None
    sets = [c for c in found if len(c) > 1 and not Selection((c,), (1.0,), size, edges).cycles([0])]
    return Selection(tuple(sets), tuple(round(rng.uniform(-1, 5), 2) for _ in sets), size, edges)


def is_legal(problem: Selection, chosen: tuple[int, ...]) -> bool:
    """Disjoint, and acyclic by networkx."""
    owner: dict[int, int] = {}
    for j in chosen:
        for p in problem.candidates[j]:
            if p in owner:
                return False
            owner[p] = problem.size + j
    graph = nx.DiGraph((owner.get(a, a), owner.get(b, b)) for a, b in problem.edges
                       if owner.get(a, a) != owner.get(b, b))
    return nx.is_directed_acyclic_graph(graph)


def best_by_brute_force(problem: Selection) -> float:
    best, count = 0.0 if problem.least_saved == 0 else -math.inf, len(problem.candidates)
    for size in range(1, count + 1):
        for chosen in itertools.combinations(range(count), size):
            if (sum(problem.gains[j] for j in chosen) > best and problem.saved(chosen) >= problem.least_saved
                    and is_legal(problem, chosen)):
                best = sum(problem.gains[j] for j in chosen)
    return best


@given(st.randoms(use_true_random=False))
def test_no_choice_saves_more_than_the_limit(rng: random.Random) -> None:
    problem = random_problem(rng, rng.randint(3, 12), rng.randint(2, 10))
    assert problem.limit >= best_by_brute_force(problem) - 1e-9


@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_no_candidate_takes_the_place_of_greedily_chosen_ones_for_more(rng: random.Random) -> None:
    """With what then fits beside it, the largest gain first."""
    problem = random_problem(rng, rng.randint(3, 14), rng.randint(2, 14))
    choice = solve_greedily(problem)
    order = sorted(problem.useful, key=lambda j: (-problem.gains[j], j))
    for i in order:
        trial = [j for j in choice.chosen if not problem.candidates[j] & problem.candidates[i]] + [i]
        for j in order:
            if not any(problem.candidates[j] & problem.candidates[k] for k in trial):
                trial.append(j)
        gain = sum(problem.gains[j] for j in trial)
        assert gain <= choice.objective + 1e-5 or problem.cycles(trial)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(2, 5), st.floats(0.1, 9.0)), min_size=1, max_size=9))
def test_the_limit_of_segments_is_what_the_best_choice_saves(segments: list[tuple[int, int, float]]) -> None:
    sets = {frozenset(range(start, start + length)): gain for start, length, gain in segments}
    problem = Selection(tuple(sets), tuple(sets.values()), 13, ())
    assert problem.limit == pytest.approx(best_by_brute_force(problem))


@given(st.randoms(use_true_random=False))
def test_the_integer_program_finds_the_best_choice(rng: random.Random) -> None:
    problem = random_problem(rng, rng.randint(3, 12), rng.randint(2, 10))
    choice, greedy = solve(problem, 5.0), solve_greedily(problem)
    assert choice.status == "optimal"
    assert choice.objective == pytest.approx(best_by_brute_force(problem))
    assert choice.objective >= greedy.objective - 1e-9
    assert choice.bound >= choice.objective - 1e-9
    assert is_legal(problem, choice.chosen)
    assert is_legal(problem, greedy.chosen)
    assert solve(problem, 5.0) == choice, "the same problem has one answer"


@given(st.randoms(use_true_random=False))
def test_a_choice_saves_as_many_kernels_as_it_has_to(rng: random.Random) -> None:
    problem = random_problem(rng, rng.randint(3, 12), rng.randint(2, 10))
    problem = replace(problem, gains=tuple(gain + 1.1 for gain in problem.gains))  # all useful, as the program needs
    problem = replace(problem, least_saved=problem.saved(solve_greedily(problem).chosen))
    choice = solve(problem, 5.0)
    assert problem.saved(choice.chosen) >= problem.least_saved
    assert choice.objective == pytest.approx(best_by_brute_force(problem))


def test_a_large_gain_gives_way_to_several_in_its_place() -> None:
    """By gain alone {0..3} goes first, and nothing fits beside it."""
    sets = (frozenset((0, 1, 2, 3)), frozenset((0, 1, 2)), frozenset((0, 1)), frozenset((2, 3)))
    problem = Selection(sets, (5.0, 4.5, 4.0, 3.0), 4, ())
    assert solve_greedily(problem).chosen == (2, 3)


CROSSING = Selection((frozenset((0, 2)), frozenset((1, 3))), (3.0, 2.0), 4, ((0, 3), (1, 2)))
"""Fig. 3 of FusionStitching: two patterns that need each other's results."""


def test_cycles_are_cut_one_by_one() -> None:
    assert CROSSING.cycles([0, 1]) == [(0, 1)]
    choice = solve(CROSSING, 5.0)
    assert (choice.chosen, choice.cuts, choice.status) == ((0,), 1, "optimal")


def test_control_edges_close_cycles_too() -> None:
    free = Selection((frozenset((0, 2)),), (3.0,), 3, ((0, 2),))
    assert solve(free, 5.0).chosen == (0,)
    held = Selection((frozenset((0, 2)),), (3.0,), 3, ((0, 2), (0, 1), (1, 2)))
    assert solve(held, 5.0).chosen == ()


def hard_problem() -> Selection:
    """Many overlapping candidates of nearly equal gain; the best takes the solver long."""
    rng = random.Random(3)
    sets = tuple({frozenset(rng.sample(range(150), 3)): None for _ in range(1500)})
    return Selection(sets, tuple(10 + rng.random() for _ in sets), 150, ())


@pytest.mark.parametrize("highs", [True, False], ids=["HiGHS", "CBC"])
def test_a_time_limit_leaves_a_real_bound(highs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not highs:
        pulp = ilp_solver.import_pulp()
        assert pulp is not None
        monkeypatch.setattr(pulp.HiGHS, "available", lambda self: False)
    problem = hard_problem()
    choice = solve(problem, 2.0)
    greedy = solve_greedily(problem)
    assert choice.program == ("HiGHS" if highs else "CBC")
    assert choice.status == "feasible"
    assert choice.objective >= greedy.objective
    assert choice.objective <= choice.bound <= 51 * 11, "at most 50 triples of at most 11 each, give or take"
    assert is_legal(problem, choice.chosen)


@pytest.mark.parametrize("highs", [True, False], ids=["HiGHS", "CBC"])
def test_both_programs_agree(highs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(random.Random(5), 60, 80)
    expected = solve(problem, 10.0).objective
    if not highs:
        pulp = ilp_solver.import_pulp()
        assert pulp is not None
        monkeypatch.setattr(pulp.HiGHS, "available", lambda self: False)
    assert solve(problem, 10.0).objective == pytest.approx(expected)


def test_the_solver_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert solve(CROSSING, 5.0).program == "HiGHS"
    assert capfd.readouterr() == ("", ""), "a program's output is the user's"


WITHOUT_PULP = """
import sys
from concurrent.futures import ThreadPoolExecutor
from tf_stitch.planning.ilp_solver import solve
from tf_stitch.planning.selection import Selection
edges = ((0, 3), (1, 2))
def status(_: int) -> str:
    return solve(Selection((frozenset((0, 2)), frozenset((1, 3))), (3.0, 2.0), 4, edges), 5.0).status
with ThreadPoolExecutor(8) as pool:
    print(*pool.map(status, range(8)))
"""


@pytest.mark.parametrize(("package", "said"), [
    ("raise ModuleNotFoundError(name='pulp')", "it is not installed"),
    ("import time; time.sleep(0.2); import no_such_module", "No module named 'no_such_module'"),
    ("import time; time.sleep(0.2); from . import core", "ImportError: cannot import name 'core'"),
    ("__version__ = '4.2.0'; LpProblem = LpAffineExpression = HiGHS = None", "version 4.2.0 has no LpSolutionOptimal"),
])  # fmt: skip
def test_without_pulp_the_greedy_choice_is_taken_and_said_once(tmp_path: Path, package: str, said: str) -> None:
    (tmp_path / "pulp").mkdir()
    (tmp_path / "pulp" / "__init__.py").write_text(package)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run([sys.executable, "-c", WITHOUT_PULP], text=True, capture_output=True, check=True,
                          env=os.environ | {"PYTHONPATH": path})
    assert done.stdout.split() == ["greedy"] * 8
    assert done.stderr.count("pulp cannot be used") == done.stderr.count(said) == 1


def test_disjoint_candidates_need_no_program() -> None:
    edges: tuple[Edge, ...] = ((0, 1), (1, 2), (2, 3))
    choice = solve(Selection((frozenset((0, 1)), frozenset((2, 3))), (1.0, 2.0), 4, edges), 5.0)
    assert (choice.chosen, choice.status, choice.program) == ((0, 1), "optimal", "")
