"""StitchOp on the CPU with hand-written kernels."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from tests.native.conftest import (
    ARENA,
    BARRIER,
    COPY,
    DEVICE_LAUNCH,
    FRESH,
    HOST_LAUNCH,
    INPUT,
    OUTPUT,
    VARIABLE,
    Regions,
    executable,
    launch,
)
from tf_stitch.native.fallback_call import FallbackCall

KERNELS = """
#include <unistd.h>
#define N 8
static void add_range(void* p, int64_t b, int64_t e) {
  float** a = p; for (int64_t i = b; i < e; i++) a[2][i] = a[0][i] + a[1][i]; }
int add(const tfs_env* env, void* const* a) { env->parallel_for(env->impl, N, 1, add_range, (void*)a); return 0; }
int add_big(const tfs_env* env, void* const* a) {
  env->parallel_for(env->impl, 1 << 16, 10, add_range, (void*)a); return env->num_threads < 1; }
static __thread int calling;
static void late_range(void* p, int64_t b, int64_t e) {
  if (!calling) usleep(2000);
  for (int64_t i = b; i < e; i++) ((float*)p)[i] += 1; }
int late(const tfs_env* env, void* const* a) {
  memset(a[0], 0, 4 << 16); calling = 1; env->parallel_for(env->impl, 1 << 16, 100, late_range, a[0]); calling = 0;
  return 0; }
int increment(const tfs_env* env, void* const* a) { float* x = a[0]; for (int i = 0; i < N; i++) x[i] += 1; return 0; }
int increment_to(const tfs_env* env, void* const* a) {
  const float* x = a[0]; float* y = a[1]; for (int i = 0; i < N; i++) y[i] = x[i] + 1; return 0; }
int broken(const tfs_env* env, void* const* a) { return 7; }
int one(const tfs_env* env, void* const* a) { *(float*)a[1] = *(float*)a[0] + 1; return 0; }
"""

Symbols = Callable[[str], int]


@pytest.fixture(scope="module")
def kernel(compile_c: Callable[[str], Symbols]) -> Symbols:
    return compile_c(KERNELS)


def ramp(scale: float = 1.0) -> tf.Tensor:
    # A computed value: constants share their buffers with the test.
    return tf.range(8, dtype=tf.float32) * scale


def test_outputs_and_arena(regions: Regions, kernel: Symbols) -> None:
    steps = [
        launch(kernel("add"), (INPUT, 0), (INPUT, 1), (ARENA, 64)),
        launch(kernel("increment_to"), (ARENA, 64), (OUTPUT, 0)),
        [COPY, OUTPUT, 1, INPUT, 1, 32],
    ]
    region = regions.add(lambda key: executable([[8], [2, 4]], steps, arena=(32, 64)))
    total, copied = regions.call(region, [ramp(), ramp(10)], types=[tf.float32, tf.float32])
    np.testing.assert_array_equal(total, np.arange(8) * 11 + 1)
    np.testing.assert_array_equal(copied, np.arange(8).reshape(2, 4) * 10)
    assert regions.builds[region] == [(1, 1, 8, 1, 8)]
    assert regions.library.region_runs(region) == 1


def test_parallel_for_runs_the_whole_range(regions: Regions, kernel: Symbols) -> None:
    size = 1 << 16
    step = launch(kernel("add_big"), (INPUT, 0), (INPUT, 1), (OUTPUT, 0))
    region = regions.add(lambda key: executable([[size]], [step]))
    value = tf.random.normal([size])
    np.testing.assert_array_equal(regions.call(region, [value, value])[0], value + value)


def test_parallel_for_waits_for_what_other_threads_have_begun(regions: Regions, kernel: Symbols) -> None:
    step = launch(kernel("late"), (OUTPUT, 0))
    region = regions.add(lambda key: executable([[1 << 16]], [step]))
    with ThreadPoolExecutor(4) as callers:
        results = callers.map(lambda _: regions.call(region)[0].numpy(), range(100))
    for counts in results:
        np.testing.assert_array_equal(counts, 1)


def test_shape_function_uses_the_hints(regions: Regions) -> None:
    ops = regions.library.raw_ops
    with tf.Graph().as_default():
        value = ops.stitch_op(inputs=[], variables=[], Tout=[tf.float32], region=1, output_shapes=[[None, 3]])[0]
        assert value.shape.as_list() == [None, 3]
        assert ops.stitch_op(inputs=[], variables=[], Tout=[tf.float32], region=1)[0].shape.rank is None


def test_empty_tensors(regions: Regions) -> None:
    region = regions.add(lambda key: executable([[0, 3]], []))
    assert regions.call(region, [tf.zeros([0, 4])])[0].shape == (0, 3)
    assert regions.builds[region] == [(1, 2, 0, 4)]


@pytest.mark.parametrize("fresh", [False, True])
def test_variables(regions: Regions, kernel: Symbols, fresh: bool) -> None:
    if fresh:
        step = launch(kernel("increment_to"), (VARIABLE, 0), (FRESH, 0))
    else:
        step = launch(kernel("increment"), (VARIABLE, 0))
    region = regions.add(lambda key: executable([], [step], state=[(0, int(fresh))]))
    variable = tf.Variable(ramp())
    before = variable.read_value()  # shares the variable's buffer
    for _ in range(3):
        regions.call(region, [], [variable], types=[])
    np.testing.assert_array_equal(variable, np.arange(8) + 3)
    np.testing.assert_array_equal(before, np.arange(8))
    assert len(regions.builds[region]) == 1


def test_variable_in_place_keeps_its_buffer(regions: Regions, kernel: Symbols) -> None:
    seen = []
    region = regions.add(lambda key: executable([], [launch(kernel("increment"), (VARIABLE, 0))], state=[(0, 0)]))
    variable = tf.Variable(ramp())
    regions.call(region, [], [variable], types=[])  # the initial value is shared
    for _ in range(2):
        value = variable.read_value()
        seen.append(np.from_dlpack(value).ctypes.data)
        del value
        regions.call(region, [], [variable], types=[])
    assert seen[0] == seen[1]


def test_read_only_variable(regions: Regions, kernel: Symbols) -> None:
    step = launch(kernel("add"), (INPUT, 0), (VARIABLE, 0), (OUTPUT, 0))
    region = regions.add(lambda key: executable([[8]], [step]))
    np.testing.assert_array_equal(regions.call(region, [ramp()], [tf.Variable(ramp())])[0], np.arange(8) * 2)


def test_variable_passed_twice(regions: Regions, kernel: Symbols) -> None:
    """Updated, it has to run as TensorFlow's own nodes do, which know that it is one; read, it may be stitched."""
    variable = tf.Variable(ramp())

    def subgraph(call: FallbackCall) -> None:
        call.set_state(0, call.variables[0] + 1)

    updating = regions.add(lambda key: executable([], [launch(kernel("increment"), (VARIABLE, 0))], state=[(0, 0)]),
                           subgraph)
    regions.call(updating, [], [variable, variable], types=[])
    np.testing.assert_array_equal(variable.numpy(), ramp() + 1)
    assert regions.library.region_fallbacks(updating) == 1
    variable.assign(ramp())
    step = launch(kernel("add"), (VARIABLE, 0), (VARIABLE, 1), (OUTPUT, 0))
    reading = regions.add(lambda key: executable([[8]], [step]))
    np.testing.assert_array_equal(regions.call(reading, [], [variable, variable])[0], np.arange(8) * 2)


def test_uninitialised_variable(regions: Regions) -> None:
    region = regions.add(lambda key: executable([], []))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("lonely", shape=[8], use_resource=True)
        node = regions.call(region, [], [variable], types=[])
        with pytest.raises(tf.errors.FailedPreconditionError, match="lonely"):
            session.run(node)


def test_eight_threads_build_once(regions: Regions, kernel: Symbols) -> None:
    def build(key: tuple[int, ...]) -> Sequence[int]:
        time.sleep(0.2)
        return executable([[8]], [launch(kernel("increment_to"), (INPUT, 0), (OUTPUT, 0))])

    region = regions.add(build)
    results: list[np.ndarray] = []
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        results.append(regions.call(region, [ramp()])[0].numpy())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(regions.builds[region]) == 1
    np.testing.assert_array_equal(results, [np.arange(8) + 1] * 8)


def test_shapes_are_keys(regions: Regions, kernel: Symbols) -> None:
    region = regions.add(
        lambda key: executable([key[2:]], [[COPY, OUTPUT, 0, INPUT, 0, 4 * int(np.prod(key[2:]))]])
    )
    for shape in ([8], [2, 4], [8], [2, 4]):
        result = regions.call(region, [tf.reshape(ramp(), shape)])[0]
        np.testing.assert_array_equal(result, ramp().numpy().reshape(shape))
    assert regions.builds[region] == [(1, 1, 8), (1, 2, 2, 4)]


def test_unaligned_input_has_another_key(regions: Regions) -> None:
    region = regions.add(lambda key: executable([], []))

    memory = np.zeros(64, np.float32)
    start = -memory.ctypes.data % 64 // 4  # the first aligned element
    for offset in (0, 1):
        value = tf.experimental.dlpack.from_dlpack(memory[start + offset :][:8].__dlpack__())
        regions.call(region, [value], types=[])
    assert regions.builds[region] == [(1, 1, 8), (0, 1, 8)]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64, np.int32, np.int64, np.bool_, np.uint8,
                                   np.int8, np.int16])  # fmt: skip
def test_fallback_types(regions: Regions, dtype: type) -> None:
    region = regions.add(lambda key: None, lambda call: call.set_output(0, call.inputs[0][::-1]))
    value = np.array([0, 1, 1, 0, 1]).astype(dtype)
    result = regions.call(region, [tf.constant(value)], types=[tf.as_dtype(dtype)])[0].numpy()
    np.testing.assert_array_equal(result, value[::-1])
    assert result.dtype == value.dtype


def test_failing_build_falls_back(regions: Regions) -> None:
    reasons = []

    def fallback(call: object) -> None:
        reasons.append(call.reason)
        call.set_output(0, call.inputs[0] + call.variables[0])
        call.set_state(0, call.variables[0] * 2)

    def build(key: tuple[int, ...]) -> None:
        raise ValueError("no schedule")

    region = regions.add(build, fallback)
    variable = tf.Variable(ramp())
    for factor in (2, 3):
        result = regions.call(region, [ramp()], [variable])[0]
        np.testing.assert_array_equal(result, np.arange(8) * factor)
    np.testing.assert_array_equal(variable, np.arange(8) * 4)
    assert len(regions.builds[region]) == 1
    assert reasons == ["ValueError: no schedule"] * 2
    assert regions.library.region_fallbacks(region) == 2


def test_failing_kernel_falls_back_unless_something_was_overwritten(regions: Regions, kernel: Symbols) -> None:
    step = launch(kernel("broken"))
    harmless = regions.add(
        lambda key: executable([[8]], [step]), lambda call: call.set_output(0, call.inputs[0])
    )
    np.testing.assert_array_equal(regions.call(harmless, [ramp()])[0], ramp())
    in_place = regions.add(lambda key: executable([], [step], state=[(0, 0)]))
    with pytest.raises(tf.errors.InternalError, match="returned 7"):
        regions.call(in_place, [], [tf.Variable(ramp())], types=[])


@pytest.mark.parametrize("fresh", [False, True])
def test_without_scratch_memory_it_falls_back_and_nothing_was_overwritten(regions: Regions, kernel: Symbols, fresh: bool
                                                                          ) -> None:
    reasons = []

    def fallback(call: FallbackCall) -> None:
        reasons.append(call.reason)
        call.set_output(0, call.inputs[0] * 2)
        call.set_state(0, call.variables[0] + 1)

    step = launch(kernel("broken"))  # would end the step with an error
    region = regions.add(lambda key: executable([[8]], [step], arena=[1 << 46], state=[(0, int(fresh))]), fallback)
    variable = tf.Variable(ramp())
    result = regions.call(region, [ramp()], [variable])[0]  # TensorFlow tries for ten seconds
    np.testing.assert_array_equal(result, np.arange(8) * 2)
    np.testing.assert_array_equal(variable, np.arange(8) + 1)
    assert reasons == ["no memory for the kernels of a region, which take 70368744177664 bytes of scratch memory and "
                       "32 for results"]
    assert regions.library.region_fallbacks(region) == 1


@pytest.mark.parametrize("held", [False, True], ids=["own", "read"])
@pytest.mark.parametrize("fresh", [False, True], ids=["in_place", "fresh"])
def test_whichever_allocation_fails_the_step_runs_once(regions: Regions, kernel: Symbols, fresh: bool, held: bool
                                                       ) -> None:
    """An output, two variables' values (copies of those in place that somebody has read), two segments of the arena."""
    reasons = []

    def fallback(call: FallbackCall) -> None:
        reasons.append(call.reason)
        call.set_output(0, call.inputs[0] + 1)
        for i in (0, 1):
            call.set_state(i, call.variables[i] + 1)

    steps = [launch(kernel("increment_to"), (INPUT, 0), (OUTPUT, 0))]
    for i in (0, 1):
        buffers = ((VARIABLE, i), (FRESH, i)) if fresh else ((VARIABLE, i),)
        steps.append(launch(kernel("increment_to" if fresh else "increment"), *buffers))
    words = executable([[8]], steps, arena=[256, 512], state=[(i, int(fresh)) for i in (0, 1)])
    region = regions.add(lambda key: words, fallback)
    variables = [tf.Variable(ramp()) for _ in (0, 1)]
    allocations = 5 if fresh or held else 3
    for after in range(allocations + 2):
        values = [v.read_value() for v in variables] if held else []
        regions.library.fail_allocation(after)
        np.testing.assert_array_equal(regions.call(region, [ramp()], variables)[0], ramp() + 1)
        for v in variables:
            np.testing.assert_array_equal(v, ramp() + after + 1)
        for value in values:
            np.testing.assert_array_equal(value, ramp() + after)
    regions.library.fail_allocation(-1)
    assert len(reasons) == allocations
    assert len(set(reasons)) == 1


@pytest.mark.parametrize("held", [False, True], ids=["own", "read"])
@pytest.mark.parametrize("fresh", [False, True], ids=["in_place", "fresh"])
def test_whichever_allocation_fails_an_executable_that_takes_less_runs_the_step(
        regions: Regions, kernel: Symbols, fresh: bool, held: bool) -> None:
    """Once, and all later ones."""
    steps = [launch(kernel("increment_to"), (INPUT, 0), (OUTPUT, 0))]
    for i in (0, 1):
        buffers = ((VARIABLE, i), (FRESH, i)) if fresh else ((VARIABLE, i),)
        steps.append(launch(kernel("increment_to" if fresh else "increment"), *buffers))
    state = [(i, int(fresh)) for i in (0, 1)]
    for after in range(5 if fresh or held else 3):
        region = regions.add(lambda key: executable([[8]], steps, arena=[256, 512], state=state))
        regions.smaller[region] = [executable([[8]], steps, arena=[256], state=state)]
        variables = [tf.Variable(ramp()) for _ in (0, 1)]
        for step in range(3):
            values = [v.read_value() for v in variables] if held else []
            if step == 1:
                regions.library.fail_allocation(after)
            np.testing.assert_array_equal(regions.call(region, [ramp()], variables)[0], ramp() + 1)
            for v in variables:
                np.testing.assert_array_equal(v, ramp() + step + 1)
            for value in values:
                np.testing.assert_array_equal(value, ramp() + step)
        regions.library.fail_allocation(-1)
        assert len(regions.free[region]) == 1, "asked once"
        assert regions.library.region_fallbacks(region) == 0
        assert regions.library.region_runs(region) == 3


def test_where_no_executable_takes_less_that_is_asked_once(regions: Regions, kernel: Symbols) -> None:
    """And TensorFlow's error says what the kernels need."""
    def fallback(call: FallbackCall) -> None:
        raise tf.errors.ResourceExhaustedError(None, None, "no room for a tensor")

    step = launch(kernel("increment_to"), (INPUT, 0), (OUTPUT, 0))
    region = regions.add(lambda key: executable([[8]], [step], arena=[256]), fallback)
    for _ in range(2):
        regions.library.fail_allocation(0)
        with pytest.raises(tf.errors.ResourceExhaustedError, match=r"(?s)no room for a tensor.*it needs more than"):
            regions.call(region, [ramp()])
    regions.library.fail_allocation(-1)
    np.testing.assert_array_equal(regions.call(region, [ramp()])[0], ramp() + 1)
    assert len(regions.free[region]) == 1


def test_results_of_a_call_without_memory_are_freed(regions: Regions, kernel: Symbols) -> None:
    """A second attempt allocates them again."""
    step, count, large = launch(kernel("increment_to"), (INPUT, 0), (OUTPUT, 0)), 16, 1 << 24
    region = regions.add(lambda key: executable([[8], [large]], [step], arena=[256]))
    regions.smaller[region] = [executable([[8], [large]], [step], arena=[128])] * count
    before = addressed_bytes()
    for _ in range(count):
        regions.library.fail_allocation(2)
        regions.call(region, [ramp()], types=[tf.float32, tf.float32])
    regions.library.fail_allocation(-1)
    assert len(regions.free[region]) == count
    assert addressed_bytes() - before < count * 4 * large / 2


def addressed_bytes() -> int:
    """Of this process, whether in memory or not."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def test_failing_fallback_names_its_error(regions: Regions) -> None:
    def fallback(call: object) -> None:
        raise RuntimeError("nowhere to go")

    region = regions.add(lambda key: None, fallback)
    with pytest.raises(tf.errors.InternalError, match="nowhere to go"):
        regions.call(region, [ramp()])
    silent = regions.add(lambda key: None, lambda call: None)
    with pytest.raises(tf.errors.InternalError, match="output 0 unset"):
        regions.call(silent, [ramp()])


GOOD = executable([[8]], [[COPY, OUTPUT, 0, INPUT, 0, 32]])


@pytest.mark.parametrize(
    "words",
    [
        [1, *GOOD[1:]],
        GOOD[:-1],
        [*GOOD, 0, 0],
        [*GOOD, 0, 2, 0, 1, 65, 0, 1, 65],
        [*GOOD, 0, 1, 1, 1, 65],
        [*GOOD, 0, 1, 0, 0],
        [*GOOD, 0, 1, 0, 9, 65],
        [*GOOD, 0, 1, 0, 1 << 20, 65],
        [*GOOD, 0, 1, 0, 1, 65, 65],
        executable([[-1]], []),
        executable([[8], [8]], []),
        executable([[1 << 40, 1 << 40]], []),
        executable([[8]], [[COPY, OUTPUT, 0, INPUT, 0, 33]]),
        executable([[8]], [[COPY, INPUT, 0, OUTPUT, 0, 4]]),
        executable([[8]], [[COPY, ARENA, 64, INPUT, 0, 1]], arena=(64,)),
        executable([[8]], [[COPY, VARIABLE, 0, INPUT, 0, 4]]),
        executable([[8]], [[COPY, OUTPUT, 0, BARRIER, 0, 0]]),
        executable([[8]], [[HOST_LAUNCH, 0, 0, 0]]),
        executable([[8]], [[DEVICE_LAUNCH, 0, 0, 1, 1, 0, 0, 0, 0]]),
        executable([[8]], [[9]]),
        executable([[8]], [], state=[(0, 0)]),
        executable([[8]], [], updated=[(1, 0)]),
        executable([[8]], [], updated=[(0, 1)]),
        executable([[7]], [], updated=[(0, 0)]),
        executable([[8]], [], updated=[(0, 0), (0, 0)]),
        [GOOD[0], 0, 1 << 60],
        [GOOD[0], 1, 0, *GOOD[2:]],
        executable([[8]], [[COPY, ARENA, 48, INPUT, 0, 32]], arena=(64, 64)),
        executable([[8]], [[COPY, ARENA, 128, INPUT, 0, 0]], arena=(64, 64)),
    ],
)
def test_bad_words_are_an_error(regions: Regions, words: list[int]) -> None:
    region = regions.add(lambda key: words)
    for _ in range(2):
        with pytest.raises(tf.errors.InternalError, match="bad executable"):
            regions.call(region, [ramp()])
    assert regions.call(regions.add(lambda key: GOOD), [ramp()])[0].shape == (8,)


def test_an_output_begins_as_the_input_that_it_updates(regions: Regions, kernel: Symbols) -> None:
    region = regions.add(lambda key: executable([[8]], [launch(kernel("increment"), (OUTPUT, 0))], updated=[(0, 0)]))
    given = ramp()
    np.testing.assert_array_equal(regions.call(region, [given])[0], given.numpy() + 1)
    np.testing.assert_array_equal(given, ramp(), "the input stays")


def test_constant_folding(regions: Regions) -> None:
    region = regions.add(lambda key: GOOD)

    @tf.function
    def run() -> tf.Tensor:
        return regions.call(region, [tf.constant(np.arange(8, dtype=np.float32))])[0] * 2.0

    np.testing.assert_array_equal(run(), np.arange(8) * 2)


def test_overhead(regions: Regions, kernel: Symbols, capsys: pytest.CaptureFixture[str]) -> None:
    region = regions.add(lambda key: executable([[]], [launch(kernel("one"), (INPUT, 0), (OUTPUT, 0))]))
    length, runs = 500, 40

    def chain(op: Callable[[tf.Tensor], tf.Tensor]) -> float:
        @tf.function
        def run(x: tf.Tensor) -> tf.Tensor:
            for _ in range(length):
                x = op(x)
            return x

        one = tf.random.uniform([])
        run(one)
        times = []
        for _ in range(runs):
            start = time.perf_counter()
            run(one)
            times.append(time.perf_counter() - start)
        return min(times) / length * 1e6

    step = tf.random.uniform([])
    plain = chain(lambda x: tf.raw_ops.AddV2(x=x, y=step))
    stitched = chain(lambda x: regions.call(region, [x])[0])
    with capsys.disabled():
        print(f"\nAddV2 {plain:.2f} us, StitchOp {stitched:.2f} us a node: {stitched - plain:+.2f} us")
    assert stitched - plain < 20
