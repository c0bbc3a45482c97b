"""StitchWhile with hand-written bodies."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.native.conftest import INPUT, OUTPUT, Regions, executable, launch, shapes_of
from tests.native.loops import Array, Loop, LoopRegions, carried, element, expected, fixed, last, stack
from tf_stitch.errors import BuildPending
from tf_stitch.integration.original_function import function_def
from tf_stitch.native.bindings import FallbackCall

KERNELS = """
#include <time.h>
int less(const tfs_env* env, void* const* a) { *(uint8_t*)a[2] = *(int*)a[0] < *(int*)a[1]; return 0; }
int not(const tfs_env* env, void* const* a) { *(uint8_t*)a[1] = !*(uint8_t*)a[0]; return 0; }
int always(const tfs_env* env, void* const* a) { *(uint8_t*)a[0] = 1; return 0; }
int next(const tfs_env* env, void* const* a) { *(int*)a[1] = *(int*)a[0] + 1; return 0; }
int slow_next(const tfs_env* env, void* const* a) {
  struct timespec t = {0, 300000}; nanosleep(&t, 0); return next(env, a); }
int count_to(const tfs_env* env, void* const* a) {  // n, end -> n + 1, whether that is the end
  *(int64_t*)a[2] = *(int64_t*)a[0] + 1; *(uint8_t*)a[3] = *(int64_t*)a[2] == *(int64_t*)a[1]; return 0; }
int mix(const tfs_env* env, void* const* a) {  // x, y, z, sizes: items, constant
  const int64_t* sizes = a[3];
  for (int64_t i = 0; i < sizes[0]; i++) {
    ((uint32_t*)a[2])[i] = 5 * ((uint32_t*)a[0])[i] + 3 * ((uint32_t*)a[1])[i] + (uint32_t)sizes[1];
  }
  return 0;
}
int broken(const tfs_env* env, void* const* a) { return 7; }
"""
Symbols = Callable[[str], int]
I32 = np.int32


@pytest.fixture(scope="module")
def kernel(compile_c: Callable[[str], Symbols]) -> Symbols:
    return compile_c(KERNELS)


@pytest.fixture
def guard(regions: Regions) -> Iterator[None]:
    regions.library.enable_guard(True)
    yield
    regions.library.enable_guard(False)


def items(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def less(kernel: Symbols) -> Callable[[tuple[int, ...]], list[int]]:
    """Words of a condition: input 0 < input 1."""
    return lambda key: executable([([], [])], [launch(kernel("less"), (INPUT, 0), (INPUT, 1), (OUTPUT, 0))])


def counting(kernel: Symbols, name: str = "next") -> Callable[[tuple[int, ...]], list[int]]:
    """Words of a body: input 0 + 1."""
    return lambda key: executable([([], [])], [launch(kernel(name), (INPUT, 0), (OUTPUT, 0))])


COUNT = Loop((carried(0, 0),), (carried(0, 0), fixed(1)), (last(0, 0),))
"""Inputs i, n; counts i to n."""
SUM = Loop((carried(0, 0), carried(2, 1), element(3)), (carried(0, 0), fixed(1)),
           (last(0, 0), last(2, 1), stack(1), stack(1, 4, 1)))
"""Inputs i, n, x, rows, the number of rows; x = 5 x + 3 row + 1."""


def summing(kernel: Symbols) -> Callable[[tuple[int, ...]], list[int]]:
    def words(key: tuple[int, ...]) -> list[int]:
        _, x, row, *_ = shapes_of(key)
        return executable([([], []), (x, [])], [
            launch(kernel("next"), (INPUT, 0), (OUTPUT, 0)),
            launch(kernel("mix"), (INPUT, 1), (INPUT, 2), (OUTPUT, 1), sizes=[items(row), 1])])

    return words


def sum_loop(regions: Regions, kernel: Symbols, roles: Loop = SUM, **whole: Any) -> LoopRegions:
    return LoopRegions(regions, roles, [tf.int32] * 2, less(kernel), summing(kernel), **whole)


def sums(i: Array, x: Array, row: Array) -> list[Array]:
    with np.errstate(over="ignore"):
        return [np.asarray(i + 1), 5 * x + 3 * row + 1]


def sum_inputs(rows: int, width: Sequence[int], n: int, start: int = 0) -> list[Array]:
    draw = np.random.default_rng(rows)
    return [np.array(start, I32), np.array(start + n, I32), draw.integers(0, 100, width, I32),
            draw.integers(0, 100, (rows, *width), I32), np.array(rows, I32)]


def check_sum(loop: LoopRegions, inputs: Sequence[Array]) -> None:
    results = loop(*inputs, types=[tf.int32] * len(loop.roles.outputs))
    wanted = expected(loop.roles, inputs, sums, lambda i, n: bool(i < n))
    for result, value in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(result, value, strict=True)


@pytest.mark.parametrize("width", [(16,), (3,), (), (2, 5)])
def test_carried_values_rows_and_stacks(regions: Regions, kernel: Symbols, width: tuple[int, ...]) -> None:
    loop = sum_loop(regions, kernel)
    for rows, n in ((1, 1), (2, 2), (40, 40), (40, 17), (40, 1), (40, 0), (0, 0), (16, 16), (17, 17), (130, 130)):
        check_sum(loop, sum_inputs(rows, width, n))
    assert loop.counts() == {"runs": 10, "iterations": 1 + 2 + 40 + 17 + 1 + 16 + 17 + 130, "fallbacks": 0,
                             "originals": 0}


@pytest.mark.parametrize("row", [element(3, 0), element(3, 1)])
@pytest.mark.parametrize("rows", [stack(1, -1, 0), stack(1, -1, 1), stack(1, 4, 0), stack(1, 4, 1)])
def test_ways(regions: Regions, kernel: Symbols, row: tuple[int, ...], rows: tuple[int, ...]) -> None:
    """The last result stands also in a row: of a stack that comes after it, and one that comes before."""
    roles = Loop((carried(0, 0), carried(2, 1), row), SUM.condition, (last(2, 1), rows, last(2, 1), stack(0)))
    loop = sum_loop(regions, kernel, roles)
    for n in (5, 0, 40, 2, 23):
        check_sum(loop, sum_inputs(max(n, 7), (3,), n))


def test_rows_that_are_not_aligned_have_another_key(regions: Regions, kernel: Symbols) -> None:
    loop = sum_loop(regions, kernel)
    for width in (16, 3):
        check_sum(loop, [tf.constant(x) for x in sum_inputs(4, (width,), 4)])
    assert [key[0] for key in regions.builds[loop.body]] == [1, 0]
    assert [key[1:] for key in regions.builds[loop.body]] == [(0, 1, 16, 1, 16), (0, 1, 3, 1, 3)]


def test_values_that_pass_through(regions: Regions, kernel: Symbols) -> None:
    """Three values change places; one of them is stacked, and one stays."""
    def body(key: tuple[int, ...]) -> list[int]:
        moves = [(0, 1), (1, 2), (2, 0), (4, 3)]  # output, input
        return executable([([4], [])] * 3 + [([], []), ([4], [])],
                          [launch(kernel("next"), (INPUT, 4), (OUTPUT, 3)),
                           *([3, OUTPUT, to, INPUT, source, 16] for to, source in moves)])

    roles = Loop((carried(2, 0), carried(3, 1), carried(4, 2), fixed(5), carried(0, 3)),
                 (carried(0, 3), fixed(1)), (last(2, 0), last(3, 1), last(4, 2), stack(1), last(5, 4)))
    loop = LoopRegions(regions, roles, [*[tf.float32] * 3, tf.int32, tf.float32], less(kernel), body)
    a, b, c, d = (np.arange(4, dtype=np.float32) + 10 * i for i in range(4))
    for n in range(7):
        first, second, third, rows, kept = loop(0, n, a, b, c, d, types=[tf.float32] * 5)
        order = [(a, b, c), (b, c, a), (c, a, b)][n % 3]
        for found, value in zip((first, second, third, kept), (*order, d), strict=True):
            np.testing.assert_array_equal(found, value)
        np.testing.assert_array_equal(rows, np.reshape(([c, a, b] * 3)[:n], (n, 4)))


def test_a_flag_ends_the_loop(regions: Regions, kernel: Symbols) -> None:
    roles = Loop((carried(0, 0), fixed(1)), (carried(2, 1),), (last(0, 0), last(2, 1), stack(1), stack(0)))
    goes_on = executable([([], [])], [launch(kernel("not"), (INPUT, 0), (OUTPUT, 0))])
    step = executable([([], [])] * 2, [launch(kernel("count_to"), (INPUT, 0), (INPUT, 1), (OUTPUT, 0), (OUTPUT, 1))])
    loop = LoopRegions(regions, roles, [tf.int64, tf.bool], lambda key: goes_on, lambda key: step)
    types = [tf.int64, tf.bool, tf.bool, tf.int64]
    start = (1 << 40) + 1
    for n in (1, 2, 50):
        number, done, flags, numbers = loop(np.int64(start), np.int64(start + n), False, types=types)
        assert (int(number), bool(done)) == (start + n, True)
        np.testing.assert_array_equal(flags, [False] * (n - 1) + [True], strict=True)
        np.testing.assert_array_equal(numbers, np.arange(start + 1, start + n + 1), strict=True)
    number, done, flags, _ = loop(np.int64(start), np.int64(start), True, types=types)
    assert (int(number), bool(done), flags.shape) == (start, True, (0,))


SHAPE = (5,)


@st.composite
def loops(draw: st.DrawFn) -> tuple[Loop, list[tuple[int, int, int | None]]]:
    """Roles over the inputs i, n, two vectors, two sets of rows, their number and numbers of rows, and the body's
    results but the counter: (input, input, constant to mix them with; None: the first input is passed through)."""
    count = draw(st.integers(1, 4))
    result, way, vector, rows = st.integers(1, count), st.integers(0, 3), st.integers(2, 3), st.integers(4, 5)
    value = st.one_of(st.builds(fixed, vector), st.builds(carried, vector, result), st.builds(element, rows, way))
    numbers = (carried(0, 0), element(7, draw(st.integers(0, 1))))  # ways 2 and 3
    body = (*numbers, *draw(st.lists(value, min_size=1, max_size=6)))
    source = st.integers(2, len(body) - 1)
    made = [(draw(source), draw(source), draw(st.one_of(st.none(), st.integers(0, 9)))) for _ in range(count)]
    output = st.one_of(st.builds(last, vector, result), st.builds(stack, result, st.just(-1), st.integers(0, 1)),
                       st.builds(stack, result, st.just(6), way))
    outputs = draw(st.lists(output, min_size=1, max_size=6))
    return Loop(body, (carried(0, 0), fixed(1)), (last(0, 0), *outputs)), made


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=loops(), n=st.sampled_from([0, 1, 2, 3, 16, 17, 40]), spare=st.integers(0, 2), seed=st.integers(0, 99))
def test_random_roles(regions: Regions, kernel: Symbols, case: tuple[Loop, list[tuple[int, int, int | None]]], n: int,
                      spare: int, seed: int) -> None:
    roles, made = case

    def body(key: tuple[int, ...]) -> list[int]:
        steps = [launch(kernel("next"), (INPUT, 0), (OUTPUT, 0))]
        for j, (x, y, constant) in enumerate(made, 1):
            steps.append([3, OUTPUT, j, INPUT, x, 4 * items(SHAPE)] if constant is None else launch(
                kernel("mix"), (INPUT, x), (INPUT, y), (OUTPUT, j), sizes=[items(SHAPE), constant]))
        return executable([([], [])] + [(SHAPE, [])] * len(made), steps)

    def meaning(i: Array, *values: Array) -> list[Array]:
        return [np.asarray(i + 1), *(values[x - 1] if constant is None else 5 * values[x - 1] + 3 * values[y - 1] + I32(
            constant) for x, y, constant in made)]

    draw = np.random.default_rng(seed)
    rows = n + spare
    inputs = [np.array(0, I32), np.array(n, I32), *(draw.integers(0, 100, SHAPE, I32) for _ in range(2)),
              *(draw.integers(0, 100, (rows, *SHAPE), I32) for _ in range(2)), np.array(rows, I32),
              draw.integers(0, max(rows, 1), rows, I32)]
    kept = [x.copy() for x in inputs]
    loop = LoopRegions(regions, roles, [tf.int32] * (len(made) + 1), less(kernel), body)
    results = loop(*inputs, types=[tf.int32] * len(roles.outputs))
    for result, value in zip(results, expected(roles, inputs, meaning, lambda i, n: bool(i < n)), strict=True):
        np.testing.assert_array_equal(result, value, strict=True)
    np.testing.assert_equal(inputs, kept)
    assert loop.counts() == {"runs": 1, "iterations": n, "fallbacks": 0, "originals": 0}


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
        return executable([([], []), ([n + 1], [])], [launch(kernel("next"), (INPUT, 0), (OUTPUT, 0)),
                                                      [3, OUTPUT, 1, INPUT, 1, 4 * n]])

    reasons: list[str] = []
    roles = Loop((carried(0, 0), carried(2, 1)), (carried(0, 0), fixed(1)), (last(0, 0), last(2, 1)))
    loop = LoopRegions(regions, roles, [tf.int32, tf.float32], less(kernel), body, fallback=fall_back(reasons))
    for n in (0, 1, 5):
        loop(0, n, np.ones(3, np.float32), types=[tf.int32, tf.float32])
    assert set(reasons) == {"a value that a loop carries changes its shape"}
    assert loop.counts() == {"runs": 0, "iterations": 0, "fallbacks": 3, "originals": 0}


@pytest.mark.parametrize("which", ["condition", "body"])
def test_what_cannot_be_built_or_run(regions: Regions, kernel: Symbols, which: str) -> None:
    def fail(key: tuple[int, ...]) -> None:
        raise ValueError("no schedule")

    broken = executable([([], [])], [launch(kernel("broken"))])
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


def test_a_pending_body_runs_the_original_ops(regions: Regions, kernel: Symbols) -> None:
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


def original_count() -> bytes:
    """TensorFlow's own nodes of a loop that counts, as a serialized FunctionDef."""
    v1 = tf.compat.v1
    graph, lowered = tf.Graph(), v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:
        with graph.as_default():
            i, n = (v1.placeholder(tf.int32, [], name=name) for name in "in")
            count = v1.while_loop(lambda i: i < n, lambda i: i + 1, [i])
    finally:
        if lowered:
            v1.enable_control_flow_v2()
    nodes = graph.as_graph_def()
    for placeholder in [node for node in nodes.node if node.op == "Placeholder"]:
        nodes.node.remove(placeholder)
    number = tf.int32.as_datatype_enum
    return bytes(function_def("own", nodes, {"i": number, "n": number}, [(count.name, number)], []).SerializeToString())


def test_its_own_nodes_run_natively(regions: Regions, kernel: Symbols) -> None:
    own = original_count()
    broken = counting(kernel, "broken")
    loop = LoopRegions(regions, COUNT, [tf.int32], less(kernel), broken, original=lambda reason: own)

    @tf.function
    def run(i: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
        return loop(i, n, types=[tf.int32])[0]

    assert int(run(tf.constant(3), tf.constant(70))) == 70
    assert loop.counts() == {"runs": 0, "iterations": 0, "fallbacks": 1, "originals": 0}
    assert [r[1:] for r in regions.library.native_fallbacks() if r[0] == loop.region] == \
        [("tf_stitch: a generated kernel returned 7", 1)]


@pytest.mark.parametrize(("name", "gives_way"), [("slow_next", True), ("next", False)])
def test_the_loop_is_timed_as_a_whole(regions: Regions, kernel: Symbols, guard: None, name: str, gives_way: bool
                                      ) -> None:
    own = original_count()
    loop = LoopRegions(regions, COUNT, [tf.int32], less(kernel), counting(kernel, name), original=lambda reason: own)

    @tf.function
    def run(i: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
        return loop(i, n, types=[tf.int32])[0]

    calls = 130
    for _ in range(calls):
        assert int(run(tf.constant(0), tf.constant(20))) == 20
    found = [o for o in regions.library.guard_outcomes() if o.region == loop.region]
    assert [o.original for o in found] == [gives_way]
    counts = loop.counts()
    assert counts["runs"] + counts["originals"] == calls
    assert counts["iterations"] == 20 * counts["runs"]
    assert not [o for o in regions.library.guard_outcomes() if o.region in (loop.body, loop.condition)]


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
    always = executable([([], [])], [launch(kernel("always"), (OUTPUT, 0))])
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


COUNT_WORDS = COUNT.encode()



def with_body(*body: tuple[int, ...]) -> list[int]:
    return Loop((carried(0, 0), *body), COUNT.condition, COUNT.outputs).encode()


def with_output(output: tuple[int, ...]) -> list[int]:
    return Loop(COUNT.body, COUNT.condition, (output,)).encode()


@pytest.mark.parametrize(("words", "message"), [
    (COUNT_WORDS[:-1], "ends before"),
    ([*COUNT_WORDS, 0], "left over"),
    (with_body(fixed(3)), "input is out of range"),
    (with_body(fixed(-1)), "input is out of range"),
    (with_body(carried(0, 2)), "result of the body is out of range"),
    (with_body((3, 0)), "role of an input"),
    (with_body(element(0, 4)), "way is out of range"),
    (with_body(element(0, 3)), "numbered row"),
    (with_body(element(0, 2), element(0, 3)), "numbered row"),
    (with_body(fixed(2), element(0, 3)), "contradict"),
    (with_body(carried(2, 0)), "contradict"),
    (Loop(COUNT.body, (element(0, 2), fixed(1)), COUNT.outputs).encode(), "way is out of range"),
    (Loop(COUNT.body, COUNT.condition, ()).encode(), "wrong number of outputs"),
    (with_output(last(2, 0)), "contradict"),
    (with_output(stack(0, 2)), "contradict"),
    (with_output(stack(0, -1, 2)), "way is out of range"),
    (with_output(stack(2)), "result of the body is out of range"),
])
def test_bad_roles_are_an_error(regions: Regions, words: list[int], message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        regions.library.raw_ops.stitch_while(inputs=[0, 3, 1.0], Tout=[tf.int32], results=[tf.int32] * 2, region=1,
                                             body=2, condition=3, roles=words)


def test_shape_function_uses_the_hints(regions: Regions) -> None:
    with tf.Graph().as_default():
        value = regions.library.raw_ops.stitch_while(
            inputs=[0, 3], Tout=[tf.int32], results=[tf.int32], region=1, body=2, condition=3, roles=COUNT_WORDS,
            output_shapes=[[None, 3]])
        assert value[0].shape.as_list() == [None, 3]


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
