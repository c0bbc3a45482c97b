"""First runs of a session run TensorFlow's graph, until a callable of the same session has kernels."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.plugin.test_first_calls import CLOCK, Known
from tf_stitch.plugin import graph_hook
from tf_stitch.plugin.first_calls import FirstCalls, Seconds
from tf_stitch.plugin.session_calls import GRAPH, SessionCalls, _may_wait, _ops

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tf_stitch.plugin.first_calls.time.perf_counter", CLOCK)


class Runs:
    """Runs of sessions, with work that is done when the test says so. `left_alone`: of each run by TensorFlow's way."""

    def __init__(self, known: Known | None = None, **settings: Any) -> None:
        self.work: list[Callable[[], None]] = []
        self.built: list[str] = []
        self.failed: list[str] = []
        self.known = Known() if known is None else known
        self.first = FirstCalls(lambda job: self.work.append(job) or True, lambda: True,
                                lambda graph: self.built.append(graph) or True,
                                lambda graph, error: self.failed.append(str(error)), self.known,
                                lambda: Seconds(0.0, 0.0), **settings)
        self.calls = SessionCalls(self.first)
        self.left_alone: list[bool] = []

    @contextmanager
    def patched(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        original = v1.Session._do_run

        def run(session: Any, handle: Any, targets: Any, fetches: Any, feeds: Any, *rest: Any) -> Any:
            def plain() -> Any:
                self.left_alone.append(getattr(graph_hook._suspension, "function", "") == GRAPH)
                CLOCK.now += 1e3
                return original(session, handle, targets, fetches, feeds, *rest)

            return self.calls.run(session, plain, targets, fetches, feeds)

        with monkeypatch.context() as patch:
            patch.setattr(v1.Session, "_do_run", run)
            yield


def counting() -> tuple[Any, Any, Any]:
    """A placeholder, a variable, and what adds one to the other and gives the sum."""
    x, total = v1.placeholder(tf.float32, [2]), v1.get_variable("total", [2], initializer=v1.zeros_initializer())
    return x, total, total.assign_add(x)


def test_runs_that_have_earned_it_change_over_and_share_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs()
    with tf.Graph().as_default(), v1.Session() as session, runs.patched(monkeypatch):
        x, total, add = counting()
        session.run(total.initializer)
        for n in range(1, 6):
            if n == 3:
                runs.work[0]()
            np.testing.assert_array_equal(session.run([add, x], {x: [1.0, 2.0]}), [[n, 2.0 * n], [1.0, 2.0]])
        assert runs.left_alone == [True] * 3, "the initializer, and two runs"
        assert runs.built == [GRAPH]
        assert not runs.failed
        assert len(runs.known) == 1
        np.testing.assert_array_equal(session.run(total), [5.0, 10.0])


def test_a_later_process_changes_over_at_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Known()
    for after in (2, 4):
        runs = Runs(known)
        with tf.Graph().as_default(), v1.Session() as session, runs.patched(monkeypatch):
            x, total, add = counting()
            session.run(total.initializer)
            for n in range(1, 6):
                session.run(add, {x: [1.0, 2.0]})
                if n == 2:
                    runs.work[0]()
        assert len(runs.left_alone) == 1 + (after if after == 2 else 3)


def test_errors_are_the_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs()
    with tf.Graph().as_default(), v1.Session() as session, runs.patched(monkeypatch):
        x = v1.placeholder(tf.float32, [2])
        checked = tf.debugging.check_numerics(x, "not a number", name="checked")
        session.run(checked, {x: [1.0, 2.0]})
        session.run(checked, {x: [1.0, 2.0]})
        runs.work[0]()
        with pytest.raises(tf.errors.InvalidArgumentError, match="not a number") as raised:
            session.run(checked, {x: [np.nan, 2.0]})
        assert raised.value.op is checked.op
        assert len(runs.left_alone) == 2


def random_with_a_seed() -> Any:
    return tf.random.uniform([2], seed=3)


def looping() -> Any:
    return tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)])


def large() -> Any:
    return tf.constant(np.ones([1 << 24, 2], np.float32))


def of_a_queue() -> Any:
    return v1.FIFOQueue(2, tf.float32).size()


@pytest.mark.parametrize("graph", [random_with_a_seed, looping, large, of_a_queue])
def test_what_two_instances_do_not_share_is_stitched_at_once(graph: Callable[[], Any]) -> None:
    with tf.Graph().as_default():
        assert not _may_wait(_ops([], [tf.identity(graph())], {}))


@pytest.mark.parametrize("resource", [False, True])
def test_variables_are_shared(resource: bool) -> None:
    with tf.Graph().as_default():
        variable = v1.get_variable("v", [2], use_resource=resource)
        train = v1.train.AdamOptimizer().minimize(tf.reduce_sum(variable * tf.random.uniform([2])))
        assert _may_wait(_ops([train], [], {}))


def test_a_session_is_freed_with_its_callables(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs()
    with tf.Graph().as_default(), runs.patched(monkeypatch):
        x, total, add = counting()
        session = v1.Session()
        session.run(total.initializer)
        for n in range(3):
            session.run(add, {x: [1.0, 2.0]})
            if n == 1:
                runs.work.pop()()
        left = weakref.ref(session)
        del session
        gc.collect()
        assert left() is None


def test_where_nothing_waits_runs_are_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(at_once=True)
    with tf.Graph().as_default(), v1.Session() as session, runs.patched(monkeypatch):
        for _ in range(3):
            session.run(tf.constant(1.0))
    assert runs.left_alone == [False] * 3
    assert not runs.work
