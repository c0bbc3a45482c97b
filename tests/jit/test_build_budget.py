"""How long callers wait for builds, by a clock that only waiting moves."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any

from tf_stitch.jit.build_budget import BuildBudget


class Waits:
    """Waits that last as long as they may, or until `ends` of them, which a build then ends."""

    def __init__(self) -> None:
        self.now, self.said = 0.0, 0
        self.asked: list[float] = []
        self.ends: float | None = None
        self.meanwhile: Callable[[], object] = lambda: None

    def budget(self, seconds: float) -> BuildBudget:
        return BuildBudget(seconds, self.say, lambda: self.now, self.wait)

    def say(self) -> None:
        self.said += 1

    def wait(self, builds: Collection[Future[Any]], seconds: float) -> None:
        self.asked.append(seconds)
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        if self.ends is None:
            self.now += seconds
            return
        self.now += self.ends
        for build in builds:
            build.set_result(None)


def test_builds_share_what_a_graph_may_wait() -> None:
    waits = Waits()
    budget, waits.ends = waits.budget(10), 4.0
    budget.wait(Future())
    waits.now += 100  # the program runs, and nobody waits
    budget.wait(Future())
    waits.ends = None
    budget.wait(Future())
    assert waits.asked == [10, 6, 2]
    assert budget.left == 0


def test_it_is_said_once_and_nothing_is_waited_for_any_more() -> None:
    waits = Waits()
    budget = waits.budget(3)
    for _ in range(3):
        budget.wait(Future())
    assert waits.asked == [3]
    assert waits.said == 1


def test_what_is_built_is_not_waited_for() -> None:
    waits = Waits()
    budget, build = waits.budget(3), Future[None]()
    build.set_result(None)
    budget.wait(build)
    assert waits.asked == []
    assert not waits.said
    assert budget.left == 3


def test_seconds_in_which_two_wait_count_once() -> None:
    waits = Waits()
    budget = waits.budget(10)

    def other() -> None:
        waits.now += 1
        waits.ends = 4.0
        budget.wait(Future())
        assert budget.left == 5, "the first still waits"

    waits.meanwhile = other
    budget.wait(Future())
    assert waits.asked == [10, 9]
    assert waits.now == 9
    assert budget.left == 1
    assert not waits.said


def test_a_program_may_allow_more() -> None:
    waits = Waits()
    budget = waits.budget(1)
    budget.wait(Future())
    assert budget.left == 0
    budget.allow(5)
    budget.allow(3)
    assert budget.left == 5
