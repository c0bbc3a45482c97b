"""First calls run TensorFlow's graph until kernels are there, and making the second instance runs nothing."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.eager.context import Context

from tests.support.function_calls import KEPT, call_of, counting
from tf_stitch.config import load_config
from tf_stitch.interruption import Interrupted
from tf_stitch.native.bindings import load_op
from tf_stitch.plugin import graph_hook
from tf_stitch.plugin.allowance import host_seconds
from tf_stitch.plugin.callers_executor import EXECUTOR
from tf_stitch.plugin.first_calls import ORIGINAL_CALLS, FirstCalls, Seconds
from tf_stitch.plugin.other_instance import Arguments, instantiate

LOAD_SECONDS, NODE_SECONDS = host_seconds(on_gpus=False)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


CLOCK = Clock()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tf_stitch.plugin.first_calls.time.perf_counter", CLOCK)


@pytest.fixture(autouse=True, scope="module")
def executor() -> None:
    load_op(load_config().cache_dir)


def test_an_instance_is_made_and_nothing_runs() -> None:
    counter = tf.Variable(0)
    ctx, *call = call_of(counting(counter), tf.constant([1.0]))
    assert counter.numpy() == 1
    instantiate(ctx, *call, ctx.function_call_options.as_attrs() | {"executor_type": EXECUTOR})
    assert counter.numpy() == 1


class Known(dict[str, int]):
    """Stands for plugin.known_functions."""

    def recall(self, key: str) -> int | None:
        return self.get(key)

    def add(self, key: str, call: int) -> None:
        self[key] = call


class Calls:
    """First calls of a function of one variable, with work that is done when the test says so.

    Attributes:
        seconds: what a call by TensorFlow's graph takes.
        spent: what threads that build take so far.
    """

    def __init__(self, known: Known | None = None, complete: bool = True, function: Any = None,
                 seconds: float = 1e3, **settings: Any) -> None:
        self.work: list[Callable[[], None]] = []
        self.known = Known() if known is None else known
        self.seconds, self.spent = seconds, Seconds(0.0, 0.0)
        self.failed: list[str] = []
        self.executors: list[str | None] = []
        self.counter = tf.Variable(0)
        self.build: Callable[[str], bool] = lambda graph: complete
        self.goes_on = True
        self.first = FirstCalls(lambda job: self.work.append(job) or True, lambda: self.goes_on,
                                lambda graph: self.build(graph), lambda graph, error: self.failed.append(str(error)),
                                self.known, lambda: self.spent, **settings)
        self.ctx, self.name, *self.arguments = call_of(function or counting(self.counter), tf.constant([1.0]))

    def __call__(self) -> None:
        def original(ctx: Context, *_: Any) -> None:
            self.executors.append(ctx.function_call_options.executor_type)
            CLOCK.now += self.seconds

        if self.first.is_over(self.name):
            self.executors.append("over")
        else:
            self.first.call(original, self.ctx, self.name, *self.arguments)


def test_calls_that_take_as_long_as_kernels_cost_begin_them_and_the_first_does_not_count() -> None:
    calls = Calls(seconds=0.7 * NODE_SECONDS)
    nodes = calls.first._function(calls.ctx, calls.name, *calls.arguments).account.nodes
    while not calls.work:
        calls()
    assert len(calls.executors) - 1 == math.ceil((LOAD_SECONDS / NODE_SECONDS + nodes) / 0.7)
    calls()
    assert len(calls.work) == 1


def test_the_most_valuable_of_those_that_wait_is_begun_next() -> None:
    calls, many = Calls(), tf.Variable(0)
    others = [call_of(counting(many), tf.constant([1.0])) for _ in range(2)]
    calls()
    calls()
    for seconds, (ctx, name, *arguments) in zip((10.0, 1e4), others, strict=True):
        for _ in range(2):
            calls.first.call(lambda *_, seconds=seconds: setattr(CLOCK, "now", CLOCK.now + seconds), ctx, name,
                             *arguments)
    assert len(calls.work) == 1, "one at a time"
    calls.work[0]()
    assert len(calls.work) == 2
    calls.work[1]()
    assert calls.first.is_over(others[1][1])
    assert not calls.first.is_over(others[0][1])


def test_values_that_were_freed_do_not_keep_a_function_from_being_built() -> None:
    calls = Calls(seconds=0.0)
    calls()
    calls()
    calls.arguments[0] = [tensor for tensor in calls.arguments[0] if tensor.dtype == tf.resource]
    gc.collect()
    calls.first.finish(0)
    calls.work[0]()
    assert not calls.failed
    assert calls.first.is_over(calls.name)


def test_a_resource_that_was_freed_is_waited_for() -> None:
    """As an iterator is for each epoch."""
    calls = Calls(seconds=0.0)
    calls()
    calls()
    inputs, calls.counter = calls.arguments[0], None
    calls.arguments[0] = [tensor for tensor in inputs if tensor.dtype != tf.resource]
    KEPT.clear()
    del inputs
    gc.collect()
    assert not calls.first.finish(0)
    assert not calls.work
    assert not calls.failed


def test_the_second_call_may_begin_and_our_executor_comes_when_all_is_built() -> None:
    calls = Calls()
    calls()
    assert not calls.work
    assert calls.first.began(calls.name.decode())
    calls()
    calls()
    assert len(calls.work) == 1
    assert not calls.first.is_over(calls.name)
    assert str(calls.first).startswith("functions without kernels yet: 1 in its first calls")
    calls.work[0]()
    calls()
    assert calls.executors == [None] * 3 + ["over"]
    assert len(calls.known) == 1
    assert calls.counter.numpy() == 1, "the other instance was made, and nothing ran"
    assert not str(calls.first)


@pytest.mark.parametrize(("rewriting", "change"), [(0.0, ORIGINAL_CALLS + 1), (4.5e3, 10)])
def test_a_known_function_changes_over_at_one_call_whenever_it_is_built(rewriting: float, change: int) -> None:
    """It has taken as long as rewriting did when that begins, and as long again when kernels come."""
    first = Calls()
    first()
    first()
    first.build = lambda graph: setattr(first, "spent", Seconds(rewriting, 1e6)) or True
    first.work[0]()
    assert list(first.known.values()) == [change]
    for builds_at in range(change // 2, change):
        calls = Calls(first.known)
        for n in range(change + 1):
            calls()
            if n + 1 == builds_at:
                calls.work[0]()
        assert calls.executors == [None] * (change - 1) + [EXECUTOR, "over"]
    assert list(first.known.values()) == [change], "the first process decides for all others"


def test_a_known_function_waits_so_long_and_no_longer() -> None:
    known = Calls()
    known()
    known()
    known.work[0]()
    calls = Calls(known.known, patience=0.01)
    for _ in range(ORIGINAL_CALLS + 2):
        calls()
    assert calls.executors == [None] * (ORIGINAL_CALLS + 2)
    assert calls.first.changes_any_time(calls.name.decode())
    calls.work[0]()
    assert calls.first.is_over(calls.name)


def test_what_lacks_kernels_is_known_when_the_program_ends_with_all_built() -> None:
    calls = Calls(complete=False)
    calls()
    calls()
    calls.work[0]()
    calls.first.end(all_is_built=False)
    assert not calls.known
    calls.first.end(all_is_built=True)
    assert calls.known


def test_functions_that_are_stitched_at_once_become_known() -> None:
    calls = Calls(at_once=True)
    calls()
    assert calls.executors == [EXECUTOR]
    calls.first.end(all_is_built=True)
    later = Calls(calls.known)
    later()
    later()
    assert not later.first.changes_any_time(later.name.decode())


def test_a_program_may_wait() -> None:
    calls = Calls(seconds=0.0)
    calls()
    assert calls.first.finish(0.01), "nothing has begun"
    calls()
    assert not calls.first.finish(0.01)
    Thread(target=calls.work[0]).start()
    assert calls.first.finish(30)
    calls()
    assert calls.executors == [None, None, "over"]


def test_what_cannot_be_built_stays_tensorflows() -> None:
    def fail(graph: str) -> bool:
        raise ValueError("no")

    calls = Calls()
    calls.build = fail
    for _ in range(3):
        calls()
    calls.work[0]()
    calls()
    assert calls.failed == ["no"]
    assert len(calls.work) == 1
    assert calls.executors == [None] * 4
    assert calls.first.finish(0.01), "there is nothing to wait for"
    assert not str(calls.first)


def test_a_program_that_ends_leaves_its_functions_in_their_first_calls() -> None:
    calls = Calls()
    calls()
    calls()
    calls.goes_on = False
    calls.work[0]()
    assert not calls.failed
    assert str(calls.first).startswith("functions without kernels yet: 1 in its first calls")


def test_a_function_that_is_dropped_before_it_is_built_is_no_failure() -> None:
    calls = Calls()
    calls()
    calls()
    KEPT.clear()
    gc.collect()
    assert not calls.ctx.has_function(calls.name)
    calls.work[0]()
    assert not calls.failed
    assert calls.first.finish(0.01)


def test_what_ctrl_c_interrupts_begins_anew() -> None:
    def interrupted(graph: str) -> bool:
        raise Interrupted

    calls = Calls()
    calls.build = interrupted
    calls()
    calls()
    calls.work[0]()
    calls.build = lambda graph: True
    calls()
    assert len(calls.work) == 2
    calls.work[1]()
    assert calls.first.is_over(calls.name)


def test_a_forked_child_begins_anew() -> None:
    calls = Calls()
    calls()
    calls()
    calls.first._process = -1
    calls()
    assert len(calls.work) == 2


def test_excluded_functions_are_no_first_calls() -> None:
    calls = Calls()
    with graph_hook.suspended():
        calls()
    assert calls.first.is_over(calls.name)
    assert not calls.first.began(calls.name.decode())


def test_what_may_not_wait_asks_for_our_executor_at_once() -> None:
    seeded = tf.function(lambda x: x + tf.random.uniform([], seed=3))
    calls = Calls(function=seeded)
    calls()
    calls()
    assert calls.executors == [EXECUTOR, "over"]
    assert not calls.work


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Context, "num_gpus", lambda self: 1)


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("room", [True, False])
def test_first_calls_on_gpus_are_tensorflows_where_its_graph_has_room(room: bool) -> None:
    asked: list[bytes] = []
    calls = Calls(has_room=lambda ctx, definition, name, inputs, outputs: asked.append(name) or room)
    for _ in range(2):
        calls()
    assert asked == [calls.name], "once"
    assert calls.executors == ([None] * 2 if room else [EXECUTOR, "over"])
    assert calls.first.began(calls.name.decode()) is room


def test_without_gpus_nobody_asks_for_room() -> None:
    calls = Calls(has_room=lambda *_: pytest.fail("there is no GPU"))
    calls()
    assert calls.executors == [None]


@pytest.mark.usefixtures("gpu")
def test_calls_earn_what_gpus_take_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """They return before that: some are waited for, others count as the last of these."""
    calls, device, earned = Calls(seconds=1.0), iter([0.0, 9.0] * 3), []
    monkeypatch.setattr("tf_stitch.plugin.first_calls.wait_for_gpus",
                        lambda: setattr(CLOCK, "now", CLOCK.now + next(device)))
    for _ in range(4):
        calls()
        earned.append(calls.first._functions[calls.name].account.earned)
    assert earned == [0.0, 10.0, 20.0, 30.0]
    assert len(list(device)) == 2, "before and after calls 2 and 4"


def test_values_that_were_freed_are_made_where_they_were() -> None:
    value = tf.constant([1.0])
    [made] = Arguments(*call_of(tf.function(lambda x: x + 1.0), value)[:2], [value], 1)._inputs
    assert made[-1] == value.backing_device
