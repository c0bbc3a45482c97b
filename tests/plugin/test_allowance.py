"""Simulated programs: whatever calls come, building kernels costs no more than the rule says, and is not put off."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from tf_stitch.plugin.allowance import SHARE, START_SECONDS, Account, Allowance, host_seconds

LOAD_SECONDS, NODE_SECONDS = host_seconds(on_gpus=False)
_, GPU_NODE_SECONDS = host_seconds(on_gpus=True)
Trace = list[tuple[int, float]]
"""Calls in order: which function, and the seconds that TensorFlow's graph takes."""


@dataclass
class Program:
    """What a program did.

    Attributes:
        took: seconds of all its calls.
        loss: seconds of processor time beyond those of TensorFlow's graphs.
        begun: the functions that were built, in that order, and what their calls had taken by then.
    """

    took: float
    loss: float
    begun: list[tuple[int, float]]
    losses: list[tuple[float, float]]


def simulated(trace: Trace, nodes: list[int], error: float = 1.0) -> Program:
    """Runs a trace of calls. Kernels gain nothing, which is the worst case, and are there at once.

    Args:
        nodes: of each function.
        error: what building costs, by what is estimated before anything was built.
    """
    allowance, accounts = Allowance(), [Account(count) for count in nodes]
    waiting = dict(enumerate(accounts))
    done = Program(0.0, 0.0, [], [])
    for function, seconds in trace:
        done.took += seconds
        if function in waiting:
            allowance.earn(waiting[function], seconds)
        while (best := allowance.most_valuable(waiting.values())) is not None:
            which = next(n for n, account in waiting.items() if account is best)
            reserved = allowance.begin(best)
            cost = error * ((0.0 if done.begun else LOAD_SECONDS) + NODE_SECONDS * best.nodes)
            allowance.end(best, reserved, cost)
            done.loss += cost
            done.begun.append((which, best.earned))
            del waiting[which]
        done.losses.append((done.took, done.loss))
    return done


calls = st.lists(st.tuples(st.integers(0, 4), st.floats(0.0, 3.0)), max_size=80)
sizes = st.lists(st.integers(1, 5000), min_size=5, max_size=5)


@given(calls, sizes, st.floats(0.1, 1.0))
def test_no_program_loses_more_than_its_calls_took_and_the_start(trace: Trace, nodes: list[int], error: float) -> None:
    for took, loss in simulated(trace, nodes, error).losses:
        assert loss <= START_SECONDS + SHARE * took + 1e-9


@given(calls, sizes, st.floats(1.0, 8.0))
def test_estimates_that_are_too_low_cost_one_function(trace: Trace, nodes: list[int], error: float) -> None:
    over = (error - 1) * (LOAD_SECONDS + NODE_SECONDS * max(nodes))
    for took, loss in simulated(trace, nodes, error).losses:
        assert loss <= START_SECONDS + SHARE * took + over + 1e-9


@given(st.floats(0.001, 3.0), st.integers(1, 5000))
def test_one_function_is_begun_as_soon_as_its_calls_took_what_it_costs(seconds: float, nodes: int) -> None:
    cost = LOAD_SECONDS + NODE_SECONDS * nodes
    enough = int(cost / SHARE / seconds) + 2
    done = simulated([(0, seconds)] * enough, [nodes])
    assert [function for function, _ in done.begun] == [0]
    assert cost <= SHARE * done.begun[0][1] + 1e-9
    assert SHARE * (done.begun[0][1] - seconds) <= cost + 1e-9


@given(st.integers(2, 8), st.floats(0.5, 1.0))
def test_what_is_called_once_more_each_is_never_built(functions: int, part: float) -> None:
    """A function for each length, or for each trial: each by itself does not take what it costs."""
    nodes, cost = 300, LOAD_SECONDS + 300 * NODE_SECONDS
    trace = [(function, part * 0.99 * cost / SHARE / 3) for function in range(functions) for _ in range(3)]
    assert simulated(trace, [nodes] * functions).loss == 0.0


def test_the_most_valuable_comes_first() -> None:
    allowance, accounts = Allowance(), [Account(100), Account(100), Account(10**6)]
    for account, seconds in zip(accounts, (1.0, 2.0, 3.0), strict=True):
        allowance.earn(account, seconds)
    assert allowance.most_valuable(accounts) is accounts[1]
    assert allowance.most_valuable(accounts[2:]) is None


def test_costs_are_learned() -> None:
    allowance, account = Allowance(), Account(1000)
    before = allowance.cost(account) - LOAD_SECONDS
    allowance.end(account, allowance.begin(account), LOAD_SECONDS + before / 4)
    assert before / 4 < allowance.cost(account) < before


def test_after_an_estimate_that_was_too_low_all_is_earned_before_the_next_begins() -> None:
    allowance, first, second = Allowance(), Account(1000), Account(1)
    allowance.earn(first, allowance.cost(first) / SHARE)
    took = 10 * allowance.cost(first)
    allowance.end(first, allowance.begin(first), took)
    allowance.earn(second, allowance.cost(second) / SHARE)
    assert not allowance.covers(second)
    allowance.earn(second, took / SHARE)
    assert allowance.covers(second)


def test_what_gpus_run_is_estimated_to_cost_less() -> None:
    allowance = Allowance()
    assert allowance.cost(Account(1000, on_gpus=True)) == LOAD_SECONDS + 1000 * GPU_NODE_SECONDS
    assert allowance.cost(Account(1000)) == LOAD_SECONDS + 1000 * NODE_SECONDS
    allowance.end(built := Account(500, on_gpus=True), allowance.begin(built), LOAD_SECONDS + 500 * GPU_NODE_SECONDS)
    assert allowance.cost(Account(1000, on_gpus=True)) == 1000 * GPU_NODE_SECONDS
