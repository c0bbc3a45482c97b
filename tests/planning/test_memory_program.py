"""What is computed again, by the integer program and one after the other, against all choices there are."""

from __future__ import annotations

import pytest

from tests.planning.test_memory import KIB, best_by_brute_force, random_problem, value
from tf_stitch.planning import memory_program, memory_rules
from tf_stitch.planning.memory import How, MemoryProblem, Use, Value
from tf_stitch.planning.memory_greedy import solve_greedily
from tf_stitch.planning.memory_program import MemorySolver, solve_memory

SEEDS = range(24)


def cases(seed: int) -> list[tuple[MemoryProblem, int]]:
    problem = random_problem(seed)
    peak = problem.peak(problem.all_kept)
    return [(problem, round(peak * part)) for part in (0.9, 0.75, 0.6, 0.4)]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_choice_is_better(seed: int) -> None:
    for problem, budget in cases(seed):
        found = solve_memory(problem, budget)
        least_us, least_peak = best_by_brute_force(problem, budget)
        assert not list(problem.faults(found.choice))
        assert (found.us, found.peak) == (problem.us(found.choice), problem.peak(found.choice))
        if least_us < float("inf"):
            assert found.peak <= budget
            assert found.us == pytest.approx(least_us, rel=2 * memory_program.GAP)
            assert found.bound_us <= least_us + 1e-6
        else:
            assert found.peak == least_peak


@pytest.mark.parametrize("seed", SEEDS[:6])
def test_one_budget_after_another_is_as_one_alone(seed: int) -> None:
    """Though a program knows the times that were over the budgets before."""
    problem, _ = cases(seed)[0]
    solver = MemorySolver(problem)
    for budget in [budget for _, budget in [*cases(seed), *reversed(cases(seed))]]:
        found, alone = solver.solve(budget), solve_memory(problem, budget)
        assert (found.us, found.peak <= budget) == (pytest.approx(alone.us, rel=2 * memory_program.GAP),
                                                    alone.peak <= budget)
        assert found.bound_us <= alone.us + 1e-6


@pytest.mark.parametrize("seed", SEEDS)
def test_one_after_the_other_is_never_better_and_can_be_done(seed: int) -> None:
    for problem, budget in cases(seed):
        choice = solve_greedily(problem, budget)
        assert not list(problem.faults(choice))
        found = solve_memory(problem, budget)
        if problem.peak(choice) <= budget:
            assert found.peak <= budget
            assert found.us <= problem.us(choice) + 1e-6
            assert found.greedy_us == problem.us(choice)
        assert solve_memory(problem, budget, "greedy").choice == choice


def test_one_after_the_other_keeps_what_a_value_is_computed_from() -> None:
    """A small value that nobody else reads later, for a large one that is gone meanwhile."""
    small = Value(KIB, 0, (Use(1), Use(5, read=False)))
    large = Value(100 * KIB, 1, (Use(2), Use(5, again_us=1.0)), (0,))
    problem = MemoryProblem((small, large), (0, 0, 0, 50 * KIB, 0, 0))
    choice = solve_greedily(problem, 110 * KIB)
    assert choice == ((How.KEPT, How.KEPT), (How.KEPT, How.AGAIN))
    assert problem.peak(choice) <= 110 * KIB < problem.peak(problem.all_kept)


def test_one_after_the_other_finds_most_of_what_there_is() -> None:
    """Under how many budgets that a choice keeps to."""
    kept = possible = 0
    for seed in SEEDS:
        for problem, budget in cases(seed):
            least_us, _ = best_by_brute_force(problem, budget)
            if least_us < float("inf"):
                possible += 1
                kept += problem.peak(solve_greedily(problem, budget)) <= budget
    assert kept >= 0.9 * possible > 0


def test_a_problem_that_fits_is_left_alone() -> None:
    problem = random_problem(0)
    found = solve_memory(problem, problem.peak(problem.all_kept))
    assert (found.choice, found.us, found.status) == (problem.all_kept, 0.0, "optimal")


def test_the_cheapest_of_equal_bytes_goes() -> None:
    values = tuple(Value(KIB, i, (Use(10 + i, again_us=us),)) for i, us in enumerate((3.0, 1.0, 2.0)))
    problem = MemoryProblem(values, (0,) * 14)
    found = solve_memory(problem, 2 * KIB)
    assert [hows[-1] for hows in found.choice] == [How.KEPT, How.AGAIN, How.KEPT]


def test_what_a_chain_begins_with_is_kept() -> None:
    """Of values each computed from the one before, with all times wanted."""
    chain = [value(*(Use(t, t == 10 - i, None, 1.0) for t in range(5, 11 - i)), written=i,
                   sources=(i - 1,) if i else ()) for i in range(4)]
    first = Value(KIB, 0, tuple(Use(t, t == 10) for t in range(5, 11)))
    problem = MemoryProblem((first, *chain[1:]), (0,) * 12)
    found = solve_memory(problem, KIB)
    assert found.peak == best_by_brute_force(problem, KIB)[1]


def test_equal_layers_are_decided_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """In large programs."""
    monkeypatch.setattr(memory_rules, "MANY", 4)
    monkeypatch.setattr(memory_rules, "PIECES", 1)
    layers = [(Value(KIB, i, (Use(19 - i, passing_us=2.0),), kind="a"),
               Value(2 * KIB, i, (Use(19 - i, passing_us=3.0),), kind="b")) for i in range(5)]
    fixed = (*(0,) * 9, 2 * KIB, *(0,) * 10)
    problem = MemoryProblem(tuple(v for layer in layers for v in layer), fixed)
    found = solve_memory(problem, 7 * KIB)
    assert found.together
    assert set(found.choice[1::2]) == {(How.PASSING,)}
    assert set(found.choice[::2]) == {(How.KEPT,)}


def test_without_pulp_values_are_chosen_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_program, "import_pulp", lambda: None)
    problem, budget = cases(1)[0]
    assert solve_memory(problem, budget).status == "greedy"
