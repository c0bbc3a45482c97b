"""StitchWhile: what it falls back for, how it is timed, and what else a call of it is."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.native.conftest import COPY, INPUT, OUTPUT, Regions, executable, launch, shapes_of
from tests.native.loop_kernels import (
    COUNT,
    I32,
    KERNELS,
    SUM,
    Symbols,
    counting,
    less,
    sum_inputs,
    sum_loop,
    sums,
)
from tests.native.loops import Loop, LoopRegions, Words, carried, element, expected, fixed, last, overlay, stack
from tests.native.test_profitability_check import DECIDED
from tf_stitch.errors import BuildPending
from tf_stitch.graph.fallback.fallback_function import function_def
from tf_stitch.native.bindings import FallbackCall


@pytest.fixture(scope="module")
def kernel(compile_c: Callable[[str], Symbols]) -> Symbols:
    return compile_c(KERNELS)


def test_inputs_of_a_graph_are_not_written(regions: Regions, kernel: Symbols) -> None:
    loop = sum_loop(regions, kernel)

    @tf.function
    def run(*inputs: tf.Tensor) -> tuple[tf.Tensor, ...]:
        own = [x + 0 for x in inputs]  # with no reader but these
        return (*loop(*own, types=[tf.int32] * 4), *own)

    inputs = sum_inputs(6, (16,), 6)
    for n in (0, 6):
        inputs[1] = np.array(n, I32)
        results = run(*map(tf.constant, inputs))
        wanted = [*expected(SUM, inputs, sums, lambda i, n: bool(i < n)), *inputs]
        for result, value in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(result, value)


def fall_back(reasons: list[str]) -> Callable[[FallbackCall], None]:
    """A fallback that gives the reason to a list and -1 to every output."""
    def run(call: FallbackCall) -> None:
        reasons.append(call.reason)
        for i in range(call.num_outputs):
            call.set_output(i, np.array(-1))

    return run


@pytest.mark.parametrize("shape", [(9, 4), (9,), ()])
def test_rows_of_another_shape_than_there_are(regions: Regions, kernel: Symbols, shape: tuple[int, ...]) -> None:
    reasons: list[str] = []
    roles = Loop(SUM.body, SUM.condition, (overlay(1, 5),))
    loop = sum_loop(regions, kernel, roles, fallback=fall_back(reasons))
    loop(*sum_inputs(7, (3,), 7), np.zeros(shape, I32), types=[tf.int32])
    assert len(reasons) == 1
    assert "another shape" in reasons[0]


@pytest.mark.parametrize(("roles", "rows", "count", "reason"), [
    (SUM, 4, 9, "reads a row"),
    (SUM, 9, 4, "writes a row"),
    (SUM, 9, -1, "number of rows is negative"),
    (Loop(SUM.body, (element(5), fixed(1)), SUM.outputs), 9, 9, "reads a row"),
    (Loop((*SUM.body[:2], element(3, 2)), SUM.condition, SUM.outputs), 3, 9, "reads a row"),
    (Loop((*SUM.body[:2], element(3, 5), fixed(6)), SUM.condition, SUM.outputs), 9, 9, "reads a row"),
    (Loop(SUM.body, SUM.condition, (*SUM.outputs[:3], stack(1, 4, 2))), 9, 3, "writes a row"),
    (Loop((*SUM.body, fixed(6)), SUM.condition, (*SUM.outputs[:3], stack(1, 4, 5))), 9, 9, "writes a row"),
    (Loop((*SUM.body, fixed(2)), SUM.condition, (*SUM.outputs[:3], stack(1, 4, 5))), 9, 9, "number is none"),
    (Loop(SUM.body, (element(0), fixed(1)), SUM.outputs), 9, 9, "rows of a scalar"),
])
def test_rows_that_are_not_there(regions: Regions, kernel: Symbols, roles: Loop, rows: int, count: int, reason: str
                                 ) -> None:
    """The condition's own rows are six ones, less than n. Input 6 is -1."""
    reasons: list[str] = []
    loop = sum_loop(regions, kernel, roles, fallback=fall_back(reasons))
    inputs = [*sum_inputs(rows, (3,), 7), np.ones(6, I32), np.array(-1, I32)]
    inputs[4] = np.array(count, I32)
    for result in loop(*inputs, types=[tf.int32] * 4):
        assert int(result) == -1
    assert reason in reasons[0]
    assert loop.counts()["runs"] == 0
    assert loop.counts()["fallbacks"] == len(reasons) == 1


def test_rows_that_there_is_no_memory_for(regions: Regions, kernel: Symbols) -> None:
    reasons: list[str] = []
    loop = sum_loop(regions, kernel, fallback=fall_back(reasons))
    inputs = sum_inputs(2, (1 << 20,), 2)
    inputs[4] = np.array((1 << 31) - 1, I32)  # 2**53 bytes
    for _ in range(2):
        assert int(loop(*inputs, types=[tf.int32] * 4)[0]) == -1
    assert reasons == ["no memory for the rows of a loop"] * 2


def test_a_value_that_grows(regions: Regions, kernel: Symbols) -> None:
    def body(key: tuple[int, ...]) -> list[int]:
        _, (n,) = shapes_of(key)
        return executable([[], [n + 1]], [launch(kernel("next"), (INPUT, 0), (OUTPUT, 0)),
                                                  [COPY, OUTPUT, 1, INPUT, 1, 4 * n]])

    reasons: list[str] = []
    roles = Loop((carried(0, 0), carried(2, 1)), (carried(0, 0), fixed(1)), (last(0, 0), last(2, 1)))
    loop = LoopRegions(regions, roles, [tf.int32, tf.float32], less(kernel), body, fallback=fall_back(reasons))
    for n in (0, 1, 5):
        loop(0, n, np.ones(3, np.float32), types=[tf.int32, tf.float32])
    assert set(reasons) == {"a value that a loop carries changes its shape"}
    assert loop.counts() == {"runs": 0, "iterations": 0, "fallbacks": 3, "preferred_fallbacks": 0}


def updating(kernel: Symbols) -> Words:
    """A body of i and x: i + 1, and x with x[i] = i + 1, in place."""
    def words(key: tuple[int, ...]) -> list[int]:
        _, x, *_ = shapes_of(key)
        return executable([[], x], [launch(kernel("next"), (INPUT, 0), (OUTPUT, 0)),
                                    launch(kernel("set_at"), (INPUT, 0), (OUTPUT, 1))], updated=[(1, 1)])

    return words


UPDATE = Loop((carried(0, 0), carried(2, 1)), (carried(0, 0), fixed(1)), (last(0, 0), last(2, 1)))
"""Inputs i, n, x."""


@pytest.mark.parametrize("ahead", [False, True], ids=["", "ahead"])
def test_a_body_updates_what_it_carries(regions: Regions, kernel: Symbols, ahead: bool) -> None:
    """An iteration that does not count writes nothing, where others begin while their condition is awaited."""
    loop = LoopRegions(regions, UPDATE, [tf.int32] * 2, less(kernel), updating(kernel))
    given = tf.range(8) * -1
    for n in (0, 1, 5):
        i, x = loop(0, n, given, types=[tf.int32] * 2, host_inputs=[0] if ahead else [])
        assert int(i) == n
        np.testing.assert_array_equal(x, [*range(1, n + 1), *-np.arange(n, 8)])
        np.testing.assert_array_equal(given, -np.arange(8), "what came in stays")
    assert loop.counts() == {"runs": 3, "iterations": 6, "fallbacks": 0, "preferred_fallbacks": 0}


@pytest.mark.parametrize(("roles", "reason"), [
    (Loop((carried(0, 0), fixed(2)), UPDATE.condition, UPDATE.outputs), "updates what it does not carry"),
    (Loop((*UPDATE.body, carried(2, 1)), UPDATE.condition, UPDATE.outputs), "updates what it does not carry"),
    (Loop(UPDATE.body, UPDATE.condition, (last(0, 0), stack(1))), "updates a row")])
@pytest.mark.usefixtures("check")
def test_a_body_updates_nothing_else(regions: Regions, kernel: Symbols, roles: Loop, reason: str,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """Its executable is refused when it comes, for good: nobody asks how long the loop takes."""
    reasons: list[str] = []
    loop = LoopRegions(regions, roles, [tf.int32] * 2, less(kernel), updating(kernel), fallback=fall_back(reasons))
    asked: list[int] = []
    monkeypatch.setattr(regions, "recall", lambda region, device, key: asked.append(region))
    for size in (8, 8, 9):
        loop(0, 3, np.zeros(size, I32), types=[tf.int32] * 2)
    assert reasons == [f"a loop's body {reason}"] * 3
    assert len(regions.builds[loop.body]) == 2
    assert loop.region not in asked


@pytest.mark.parametrize("which", ["condition", "body"])
def test_what_cannot_be_built_or_run(regions: Regions, kernel: Symbols, which: str) -> None:
    def fail(key: tuple[int, ...]) -> None:
        raise ValueError("no schedule")

    broken = executable([[]], [launch(kernel("broken"))])
    for words, reason in ((fail, "ValueError: no schedule"), (lambda key: broken, "a generated kernel returned 7")):
        reasons: list[str] = []
        parts = {"condition": less(kernel), "body": counting(kernel), which: words}
        loop = LoopRegions(regions, COUNT, [tf.int32], **parts, fallback=fall_back(reasons))
        assert int(loop(0, 3, types=[tf.int32])[0]) == -1
        assert reason in reasons[0]
        assert loop.counts()["fallbacks"] == 1
    loop = LoopRegions(regions, COUNT, [tf.int32], **parts | {which: lambda key: [1]})
    with pytest.raises(tf.errors.InternalError, match="bad executable"):
        loop(0, 3, types=[tf.int32])


def test_a_pending_body_runs_the_fallback_subgraph(regions: Regions, kernel: Symbols) -> None:
    ready = []

    def body(key: tuple[int, ...]) -> Sequence[int]:
        if not ready:
            raise BuildPending
        return counting(kernel)(key)

    reasons: list[str] = []
    loop = LoopRegions(regions, COUNT, [tf.int32], less(kernel), body, fallback=fall_back(reasons))
    assert int(loop(0, 3, types=[tf.int32])[0]) == -1
    ready.append(True)
    time.sleep(0.03)
    assert int(loop(0, 3, types=[tf.int32])[0]) == 3
    assert reasons == [""]


def fallback_count(step: Callable[[tf.Tensor], tf.Tensor] = lambda i: i + 1) -> bytes:
    """TensorFlow's own nodes of a loop that counts, as a serialized FunctionDef."""
    v1 = tf.compat.v1
    graph, lowered = tf.Graph(), v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:
        with graph.as_default():
            i, n = (v1.placeholder(tf.int32, [], name=name) for name in "in")
            count = v1.while_loop(lambda i: i < n, step, [i])
    finally:
        if lowered:
            v1.enable_control_flow_v2()
    nodes = graph.as_graph_def()
    for placeholder in [node for node in nodes.node if node.op == "Placeholder"]:
        nodes.node.remove(placeholder)
    number = tf.int32.as_datatype_enum
    return bytes(function_def("own", nodes, {"i": number, "n": number}, [(count.name, number)], []).SerializeToString())


def test_its_own_nodes_run_natively(regions: Regions, kernel: Symbols) -> None:
    own = fallback_count()
    broken = counting(kernel, "broken")
    loop = LoopRegions(regions, COUNT, [tf.int32], less(kernel), broken, subgraph=lambda reason: own)

    @tf.function
    def run(i: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
        return loop(i, n, types=[tf.int32])[0]

    assert int(run(tf.constant(3), tf.constant(70))) == 70
    assert loop.counts() == {"runs": 0, "iterations": 0, "fallbacks": 1, "preferred_fallbacks": 0}
    assert [r[1:] for r in regions.library.native_fallbacks() if r[0] == loop.region] == \
        [("tf_stitch: a generated kernel returned 7", 1)]


@pytest.mark.parametrize(("name", "gives_way"), [("slow_next", True), ("next", False)])
def test_the_loop_is_timed_as_a_whole(regions: Regions, kernel: Symbols, check: None, name: str, gives_way: bool
                                      ) -> None:
    own = fallback_count()
    loop = LoopRegions(regions, COUNT, [tf.int32], less(kernel), counting(kernel, name), subgraph=lambda reason: own)

    @tf.function
    def run(i: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
        return loop(i, n, types=[tf.int32])[0]

    calls = DECIDED
    for _ in range(calls):
        assert int(run(tf.constant(0), tf.constant(20))) == 20
    assert [measured.prefers_fallback for _, _, measured in regions.settled[loop.region]] == [gives_way]
    counts = loop.counts()
    assert counts["runs"] + counts["preferred_fallbacks"] == calls
    assert counts["iterations"] == 20 * counts["runs"]
    assert loop.body not in regions.settled
    assert loop.condition not in regions.settled


def test_nodes_that_fail_cancel_themselves_alone(regions: Regions, kernel: Symbols, check: None) -> None:
    """An experiment of the check: the kernels run in their place, and look whether the step was cancelled."""
    own = fallback_count(lambda i: i + tf.reshape(tf.range(i + 2), []))
    loop = LoopRegions(regions, COUNT, [tf.int32], less(kernel), counting(kernel), subgraph=lambda reason: own)

    @tf.function
    def run(i: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
        return loop(i, n, types=[tf.int32])[0]

    for _ in range(DECIDED):
        assert int(run(tf.constant(0), tf.constant(20))) == 20
    assert loop.counts()["runs"] == DECIDED


def test_threads_share_a_node(regions: Regions, kernel: Symbols) -> None:
    loop = sum_loop(regions, kernel)

    @tf.function(reduce_retracing=True)
    def run(*inputs: tf.Tensor) -> Any:
        return loop(*inputs, types=[tf.int32] * 4)

    def work(n: int) -> None:
        inputs = sum_inputs(50, (64,), n)
        wanted = expected(SUM, inputs, sums, lambda i, n: bool(i < n))
        for _ in range(60):
            for result, value in zip(run(*map(tf.constant, inputs)), wanted, strict=True):
                np.testing.assert_array_equal(result, value)

    work(3)
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work, n) for n in (50, 13)]:
            done.result()
    assert loop.counts()["iterations"] == 60 * (3 + 50 + 13)


def test_cancellation(regions: Regions, kernel: Symbols) -> None:
    roles = Loop(COUNT.body, (), COUNT.outputs)
    always = executable([[]], [launch(kernel("always"), (OUTPUT, 0))])
    loop = LoopRegions(regions, roles, [tf.int32], lambda key: always, counting(kernel))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        start = tf.compat.v1.placeholder(tf.int32, [])
        endless = loop(start, types=[tf.int32])[0]
        began = time.perf_counter()
        with pytest.raises((tf.errors.CancelledError, tf.errors.DeadlineExceededError)):
            session.run(endless, {start: 0}, options=tf.compat.v1.RunOptions(timeout_in_ms=200))
        assert time.perf_counter() - began < 30
    assert loop.counts()["fallbacks"] == 0
    assert loop.counts()["iterations"] > 0


def test_many_iterations_take_no_memory(regions: Regions, kernel: Symbols) -> None:
    roles = Loop((carried(0, 0), carried(2, 1), fixed(3)), SUM.condition, (last(0, 0), last(2, 1)))
    loop = sum_loop(regions, kernel, roles)
    x = np.arange(1024, dtype=I32)
    many = 100_000
    loop(0, many, x, x, types=[tf.int32] * 2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3):
        number, _ = loop(0, many, x, x, types=[tf.int32] * 2)
        assert int(number) == many
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1024, "KiB; a kept value is 4 KiB an iteration"


def test_nanoseconds_of_an_iteration(regions: Regions, kernel: Symbols, capsys: pytest.CaptureFixture[str]) -> None:
    """A counter and eight numbers, in turns with TensorFlow's own loop."""
    roles = Loop((carried(0, 0), carried(2, 1), fixed(3)), SUM.condition, (last(0, 0), last(2, 1)))
    loop = sum_loop(regions, kernel, roles)

    @tf.function
    def stitched(n: tf.Tensor, x: tf.Tensor, y: tf.Tensor) -> Any:
        return loop(0, n, x, y, types=[tf.int32] * 2)

    @tf.function
    def plain(n: tf.Tensor, x: tf.Tensor, y: tf.Tensor) -> Any:
        return tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, 5 * x + 3 * y + 1), [0, x])

    x, y = tf.range(8), tf.range(8) * 2
    forms = {"StitchWhile": (stitched, 20_000), "TensorFlow": (plain, 1_000)}
    times: dict[str, list[float]] = {name: [] for name in forms}
    for turn in range(12):
        for name, (function, iterations) in forms.items():
            start = time.perf_counter()
            function(tf.constant(iterations), x, y)
            if turn:
                times[name].append((time.perf_counter() - start) / iterations * 1e9)
    np.testing.assert_array_equal(stitched(tf.constant(77), x, y)[1], plain(tf.constant(77), x, y)[1])
    own, its = (statistics.median(times[name]) for name in forms)
    with capsys.disabled():
        print(f"\nan iteration: StitchWhile {own:.0f} ns, TensorFlow {its:.0f} ns")
    assert own < 1500
