"""StitchOp on a GPU."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from tests.native.conftest import ARENA, BARRIER, COPY, FRESH, INPUT, LIBRARY_CALL, OUTPUT, VARIABLE, Regions
from tests.native.gpu_kernels import Image, Place, entry
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.matrices import contiguous
from tf_stitch.libraries.gemm import Gemm
from tf_stitch.libraries.registry import code_of
from tf_stitch.native.bindings import UNLIMITED

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="no GPU")]

ADD_ONE = "ld.global.f32 %f, [%a0]; add.f32 %f, %f, 0f3F800000; st.global.f32 [%a1], %f;"
ADD_ONE_LATE = """mov.u32 %r1, {times};
again:
  ld.volatile.global.f32 %f, [%a0];
  sub.u32 %r1, %r1, 1;
  setp.ne.u32 %p, %r1, 0;
  @%p bra again;
add.f32 %f, %f, 0f3F800000; st.global.f32 [%a1], %f;"""
# y[i] = x[i] + 1 for i below the number of threads.
IMAGE = Image(entry("increment_to", 2, ADD_ONE), entry("slow_increment_to", 2, ADD_ONE_LATE.format(times=100000)))
# It lets others start at once, waits for those before it, and takes long before it writes: an order that is not kept
# shows.
WAITING = Image(entry("late_increment_to", 2, ADD_ONE_LATE.format(times=50),
                      begin="griddepcontrol.launch_dependents; griddepcontrol.wait;"), version="7.8", target="sm_90")


def increment(source: Place, target: Place, blocks: int = 1, cooperative: int = 0, shared: int = 0,
              kernel: str = "increment_to", threads: int = 8) -> list[int]:
    return IMAGE.launch(kernel, source, target, threads=threads, blocks=blocks, cooperative=cooperative, shared=shared)


def late(source: Place, target: Place, threads: int = 8) -> list[int]:
    return WAITING.launch("late_increment_to", source, target, threads=threads)


def matmul(size: int, *operands: tuple[int, int]) -> list[int]:
    """Of square matrices."""
    layout = contiguous((size, size))
    call = Gemm(DType.F32, 1, size, size, size, layout, layout, layout)
    return [LIBRARY_CALL, code_of(call), *call.record.words(**call.members()), len(operands),
            *(word for operand in operands for word in operand)]


def ramp() -> tf.Tensor:
    with tf.device("/GPU:0"):
        return tf.range(8, dtype=tf.float32) * 1.0


@pytest.fixture(autouse=True)
def on_gpu() -> object:
    with tf.device("/GPU:0"):
        yield


@pytest.mark.parametrize(("cooperative", "shared"), [(0, 0), (1, 0), (0, 100 * 1024)])
def test_steps(regions: Regions, cooperative: int, shared: int) -> None:
    steps = [
        increment((INPUT, 0), (ARENA, 256), cooperative=cooperative, shared=shared),
        increment((ARENA, 256), (OUTPUT, 0)),
        [COPY, OUTPUT, 1, INPUT, 0, 32],
    ]
    region = regions.add(lambda key: IMAGE.executable([[8], [8]], steps, arena=(256, 256)))
    sums, copied = regions.call(region, [ramp()], types=[tf.float32, tf.float32])
    assert "GPU" in sums.device
    np.testing.assert_array_equal(sums, np.arange(8) + 2)
    np.testing.assert_array_equal(copied, np.arange(8))
    assert regions.library.region_runs(region) == 1


@pytest.mark.parametrize("fresh", [0, 1])
def test_variables(regions: Regions, fresh: int) -> None:
    step = increment((VARIABLE, 0), (FRESH, 0) if fresh else (VARIABLE, 0))
    region = regions.add(lambda key: IMAGE.executable([], [step], state=[(0, fresh)]))
    variable = tf.Variable(ramp())
    before = variable.read_value()
    for _ in range(3):
        regions.call(region, [], [variable], types=[])
    np.testing.assert_array_equal(variable, np.arange(8) + 3)
    np.testing.assert_array_equal(before, np.arange(8))


@pytest.mark.parametrize(("kernel", "gives_way"), [("increment_to", False), ("slow_increment_to", True)])
def test_the_check_times_kernels_on_the_stream(regions: Regions, kernel: str, gives_way: bool) -> None:
    def subgraph(x: tf.Tensor) -> tf.Tensor:
        return x + 1.0 if gives_way else tf.math.cumsum(tf.ones([1 << 20]))[:8] * 0.0 + x + 1.0

    function = tf.function(subgraph).get_concrete_function(tf.TensorSpec([8], tf.float32)).function_def
    region = regions.add(lambda key: IMAGE.executable([[8]], [increment((INPUT, 0), (OUTPUT, 0), kernel=kernel)]),
                         subgraph=lambda _: bytes(function.SerializeToString()))

    @tf.function
    def run(x: tf.Tensor) -> tf.Tensor:
        return regions.call(region, [x])[0]

    regions.library.enable_profitability_check(True, apart=0, share=UNLIMITED)
    try:
        for i in range(250):
            np.testing.assert_array_equal(run(ramp() + float(i)), np.arange(8) + i + 1)
    finally:
        regions.library.enable_profitability_check(False)
    [(device, _, outcome)] = regions.settled[region]
    assert outcome.prefers_fallback == gives_way
    assert device >= 0
    assert outcome.stitched_us > 0
    assert outcome.fallback_us > 0


def test_fallback_subgraphs_take_integers_on_the_device(regions: Regions) -> None:
    """Functions expect them in host memory; the op's inputs and outputs are not there."""
    def subgraph(x: tf.Tensor, n: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return x * tf.cast(n, tf.float32), n + 1

    specs = tf.TensorSpec([8], tf.float32), tf.TensorSpec([2, 4], tf.int32)
    function = tf.function(lambda x, n: subgraph(tf.reshape(x, [2, 4]), n)).get_concrete_function(*specs).function_def
    region = regions.add(lambda key: None, subgraph=lambda _: bytes(function.SerializeToString()))

    @tf.function
    def run(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        n = tf.cast(tf.reshape(x, [2, 4]), tf.int32)
        matmul, more = regions.call(region, [x, n], types=[tf.float32, tf.int32])
        return matmul, tf.cast(more, tf.float32)

    matmul, more = run(ramp())
    np.testing.assert_array_equal(matmul, np.arange(8).reshape(2, 4) ** 2)
    np.testing.assert_array_equal(more, np.arange(8).reshape(2, 4) + 1)
    assert regions.library.region_fallbacks(region) == 1


def test_fallback_stages_memory(regions: Regions) -> None:
    def fallback(call: object) -> None:
        assert call.device >= 0
        call.set_output(0, call.inputs[0] + call.variables[0])
        call.set_state(0, call.variables[0] * 2)

    region = regions.add(lambda key: None, fallback)
    variable = tf.Variable(ramp())
    result = regions.call(region, [ramp()], [variable])[0]
    assert "GPU" in result.device
    np.testing.assert_array_equal(result, np.arange(8) * 2)
    np.testing.assert_array_equal(variable, np.arange(8) * 2)


def test_cooperative_launch_that_cannot_be_resident_falls_back(regions: Regions) -> None:
    reasons = []

    def fallback(call: object) -> None:
        reasons.append(call.reason)
        call.set_output(0, call.inputs[0])

    step = increment((INPUT, 0), (OUTPUT, 0), blocks=1 << 20, cooperative=1)
    region = regions.add(lambda key: IMAGE.executable([[8]], [step]), fallback)
    np.testing.assert_array_equal(regions.call(region, [ramp()])[0], np.arange(8))
    assert "the device holds" in reasons[0]


def test_counters_of_grid_barriers_are_zero_at_first_and_kept(regions: Regions) -> None:
    """Runs follow each other on the same counters, step by step and as a CUDA graph; each step has its own."""
    steps = [increment((BARRIER, 1), (BARRIER, 1), cooperative=1), increment((BARRIER, 1), (OUTPUT, 0)),
             increment((BARRIER, 0), (OUTPUT, 1))]
    region = regions.add(lambda key: IMAGE.executable([[8], [8]], steps))
    for run in range(8):
        counted, untouched = regions.call(region, [ramp()], types=[tf.float32, tf.float32])
        np.testing.assert_array_equal(counted, np.full(8, run + 2))
        np.testing.assert_array_equal(untouched, np.ones(8))


def test_bad_image_falls_back(regions: Regions) -> None:
    words = IMAGE.executable([[8]], [increment((INPUT, 0), (OUTPUT, 0))])
    garbage = ctypes.create_string_buffer(64)
    words[words.index(ctypes.addressof(IMAGE.buffer))] = ctypes.addressof(garbage)
    words[words.index(len(IMAGE.buffer))] = 64
    region = regions.add(lambda key: words, lambda call: call.set_output(0, call.inputs[0]))
    np.testing.assert_array_equal(regions.call(region, [ramp()])[0], np.arange(8))


def test_inside_a_function_in_stream_order(regions: Regions) -> None:
    region = regions.add(lambda key: IMAGE.executable([[8]], [increment((INPUT, 0), (OUTPUT, 0))]))

    @tf.function
    def run(x: tf.Tensor) -> tf.Tensor:
        for _ in range(50):
            x = regions.call(region, [x * 1.0])[0]
        return x

    np.testing.assert_array_equal(run(ramp()), np.arange(8) + 50)


def test_graphs_are_counted_by_region(regions: Regions) -> None:
    steps = [increment((INPUT, 0), (ARENA, 0)), increment((ARENA, 0), (ARENA, 256)),
             increment((ARENA, 256), (OUTPUT, 0))]  # fmt: skip
    region = regions.add(lambda key: IMAGE.executable([[8]], steps, arena=(256, 256)))
    for _ in range(12):
        np.testing.assert_array_equal(regions.call(region, [ramp()])[0], np.arange(8) + 3)
    [record] = [r for r in regions.library.graphs() if r.region == region]
    assert (record.graphs, record.launches, record.failures, record.error) == (1, 12 - 3, 0, "")
    assert record.programmatic == 0, "these kernels do not wait by themselves"
    assert 1 <= record.instances <= 4
    assert record.making_ns > 0
    assert record.host_ns >= record.known_ns
    assert record.known <= record.launches


def test_lengths_that_run_take_the_graphs_of_lengths_that_do_not(regions: Regions) -> None:
    """Also while the host is ahead: the last kernel takes long, so that graphs are given up that still run."""

    def build(key: Sequence[int]) -> list[int]:
        length = key[-1]
        steps = [increment((INPUT, 0), (ARENA, 0), threads=length),
                 increment((ARENA, 0), (ARENA, 256), threads=length),
                 increment((ARENA, 256), (OUTPUT, 0), threads=length, kernel="slow_increment_to")]  # fmt: skip
        return IMAGE.executable([[length]], steps, arena=(256, 256))

    def run(lengths: Sequence[int]) -> tuple[int, int, int]:
        results = [regions.call(region, [tf.range(n, dtype=tf.float32) + float(i)])[0] for i, n in enumerate(lengths)]
        for i, (n, result) in enumerate(zip(lengths, results, strict=True)):
            np.testing.assert_array_equal(result, np.arange(n) + i + 3)
        [record] = [r for r in regions.library.graphs() if r.region == region]
        assert (record.failures, record.error) == (0, "")
        return record.graphs, record.given_up, record.launches

    region = regions.add(build)
    assert run([*range(8, 18)] * 6) == (8, 0, 8 * 3), "in turns, the first eight keep theirs"
    assert run([16, 17] * 20) == (10, 2, 8 * 3 + 2 * 6), "asked for at the end of the turns, too"
    assert run([*range(8, 18)]) == (10, 2, 8 * 3 + 2 * 6 + 8), "8 and 9 have lost theirs"


def test_graphs_of_functions_that_are_gone_leave_their_places(regions: Regions) -> None:
    """Also while they run: the last kernel takes long."""
    steps = [increment((INPUT, 0), (ARENA, 0)), increment((ARENA, 0), (ARENA, 256)),
             increment((ARENA, 256), (OUTPUT, 0), kernel="slow_increment_to")]  # fmt: skip
    numbers = [regions.add(lambda key: IMAGE.executable([[8]], steps, arena=(256, 256))) for _ in range(80)]
    for number in numbers:  # more than a process has places for
        function = tf.function(lambda x, number=number: regions.call(number, [x])[0])
        results = [function(ramp() + float(i)) for i in range(5)]
        del function
        gc.collect()
        for i, result in enumerate(results):
            np.testing.assert_array_equal(result, np.arange(8) + i + 3)
    counts = {r.region: (r.graphs, r.failures) for r in regions.library.graphs()}
    assert [counts[number] for number in numbers] == [(1, 0)] * 80


def chain(steps: int) -> list[list[int]]:
    """From the input through the arena to the output."""
    between = [(ARENA, 256 * i) for i in range(steps - 1)]
    return [increment(a, b) for a, b in zip([(INPUT, 0), *between], [*between, (OUTPUT, 0)], strict=True)]


def test_a_launch_of_a_hundred_steps_takes_the_host_less_than_60_us(regions: Regions) -> None:
    region = regions.add(lambda key: IMAGE.executable([[8]], chain(100), arena=(256 * 99,)))
    x = ramp()
    for _ in range(300):
        np.testing.assert_array_equal(regions.call(region, [x])[0], np.arange(8) + 100)
    [record] = [r for r in regions.library.graphs() if r.region == region]
    print(f"{record}: {record.known_ns / record.known / 1e3:.1f} us")
    assert record.known > 200, "nearly all launches find their addresses"
    assert record.known_ns / record.known < 60_000


def test_few_nodes_get_new_addresses_where_few_addresses_change(regions: Regions) -> None:
    """More inputs in turn than there are instances: of a hundred nodes the first alone is updated, and no more
    instances are made."""
    region = regions.add(lambda key: IMAGE.executable([[8]], chain(100), arena=(256 * 99,)))
    inputs = [ramp() for _ in range(9)]
    for i in range(300):
        np.testing.assert_array_equal(regions.call(region, [inputs[i % 9]])[0], np.arange(8) + 100)
    [record] = [r for r in regions.library.graphs() if r.region == region]
    print(f"{record}: {record.host_ns / record.launches / 1e3:.1f} us")
    assert record.instances <= 4
    assert record.updates < 4 * 100 + 3 * record.launches


def test_scratch_memory_stays_whatever_else_is_allocated(regions: Regions) -> None:
    """Nodes between the first and the last keep their addresses. (The memory goes with the last region of the stream:
    tests/native/test_kept_memory.py.)"""
    part = 1 << 20
    between = [(ARENA, part * i) for i in range(19)]
    steps = [increment(a, b) for a, b in zip([(INPUT, 0), *between], [*between, (OUTPUT, 0)], strict=True)]
    region = regions.add(lambda key: IMAGE.executable([[8]], steps, arena=(part * 19,)))
    function = tf.function(lambda x: regions.call(region, [x])[0])
    x, rng, held = ramp(), np.random.default_rng(0), []

    def run(times: int) -> int:
        """Nodes that got new addresses."""
        before = sum(r.updates for r in regions.library.graphs() if r.region == region)
        for _ in range(times):
            held.append(tf.zeros([int(rng.integers(1, 12 * part))]))
            del held[: int(rng.integers(0, 2)) + (len(held) > 20)]
            np.testing.assert_array_equal(function(x), np.arange(8) + 20)
        return sum(r.updates for r in regions.library.graphs() if r.region == region) - before

    before = tf.config.experimental.get_memory_info("GPU:0")["current"]
    run(20)
    assert run(200) <= 2 * 200
    held.clear()
    assert tf.config.experimental.get_memory_info("GPU:0")["current"] >= before + 19 * part


def test_threads_do_not_share_scratch_memory(regions: Regions) -> None:
    region = regions.add(lambda key: IMAGE.executable([[8]], chain(50), arena=(256 * 49,)))
    function = tf.function(lambda x: regions.call(region, [x])[0])
    inputs = [ramp() + float(i) for i in range(4)]

    def work(i: int) -> bool:
        with tf.device("/GPU:0"):
            return all(np.array_equal(function(inputs[i]), np.arange(8) + i + 50) for _ in range(200))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(4)))


def test_matmuls_side_by_side_have_scratch_memory_each(regions: Regions) -> None:
    size = 512
    x = tf.random.normal([size, size])
    tf.matmul(x, x)  # TensorFlow loads cuBLASLt
    part = size * size * 4
    steps = [matmul(size, (INPUT, 0), (INPUT, 0), (ARENA, 0)), matmul(size, (INPUT, 0), (INPUT, 0), (ARENA, part)),
             matmul(size, (ARENA, 0), (ARENA, part), (OUTPUT, 0))]  # fmt: skip
    edges = [0, 0, 2, 0, 1]
    region = regions.add(lambda key: [*IMAGE.executable([[size, size]], steps, arena=(part, part)), *edges])
    square = x.numpy().astype(np.float64) @ x.numpy()
    for _ in range(12):
        got = regions.call(region, [x])[0].numpy()
        assert np.abs(got - square @ square).max() < 2e-2 * np.abs(square @ square).max()
    [record] = [r for r in regions.library.graphs() if r.region == region]
    assert (record.graphs, record.failures, record.error) == (1, 0, "")


GPUS = tf.config.list_physical_devices("GPU")
waits = pytest.mark.skipif(
    not GPUS or tf.config.experimental.get_device_details(GPUS[0]).get("compute_capability", (0, 0)) < (9, 0),
    reason="kernels wait by themselves from compute capability 9.0 on")


def test_a_matmul_of_operands_that_are_not_aligned(regions: Regions) -> None:
    """Kernels that ask for more are not among what the library proposes: the region does not fall back."""
    def fallback(call: object) -> None:
        raise AssertionError(call)

    size, cupy = 64, pytest.importorskip("cupy")
    step = matmul(size, (INPUT, 0), (INPUT, 1), (OUTPUT, 0))
    region = regions.add(lambda key: IMAGE.executable([[size, size]], [step]), fallback)
    values = np.arange(2 * (size * size + 1), dtype=np.float32).reshape(2, -1) % 7
    [a, b] = [tf.experimental.dlpack.from_dlpack(cupy.asarray(row)[1:].reshape(size, size).__dlpack__())
              for row in values]
    for _ in range(2):
        [out] = regions.call(region, [a, b])
        np.testing.assert_array_equal(out, values[0, 1:].reshape(size, size) @ values[1, 1:].reshape(size, size))
    assert regions.builds[region] == [(regions.builds[region][0][0] & ~1, 2, size, size, 2, size, size)]


@pytest.fixture(params=[True, False])
def programmatic(request: pytest.FixtureRequest, regions: Regions) -> Iterator[bool]:
    regions.library.set_graphs(64, request.param)
    yield request.param
    regions.library.set_graphs(64, True)


@waits
def test_kernels_that_start_early_keep_the_order(regions: Regions, programmatic: bool) -> None:
    """Buffers are written again as soon as they have been read; the fourth step has two parents, and those after it
    come after the first ones by way of it alone."""
    steps = [late((INPUT, 0), (ARENA, 0)), late((ARENA, 0), (ARENA, 256)), late((ARENA, 0), (ARENA, 512)),
             late((ARENA, 256), (ARENA, 0)), late((ARENA, 0), (ARENA, 256)), late((ARENA, 512), (OUTPUT, 1)),
             late((ARENA, 256), (OUTPUT, 0))]  # fmt: skip
    before = [[], [0], [0], [1, 2], [3], [2], [4]]
    edges = [word for some in before for word in (len(some), *some)]
    region = regions.add(
        lambda key: [*WAITING.executable([[8], [8]], steps, arena=(256 * 3,)), *edges])
    inputs = [ramp() + float(i) for i in range(9)]
    for run in range(200):
        i = run % 9
        last, side = regions.call(region, [inputs[i]], types=[tf.float32, tf.float32])
        np.testing.assert_array_equal(last, np.arange(8) + i + 5)
        np.testing.assert_array_equal(side, np.arange(8) + i + 3)
    [record] = [r for r in regions.library.graphs() if r.region == region]
    assert (record.graphs, record.refused, record.failures, record.error) == (1, 0, 0, "")
    assert record.programmatic == (sum(map(len, before)) if programmatic else 0)
    assert record.updates > 0


@waits
def test_kernels_start_before_matmuls_and_copies_end_as_far_as_they_can(regions: Regions, programmatic: bool) -> None:
    """The kernel after a matmul starts early, the one after a copy and the matmul itself do not."""
    size = 16
    weights = tf.eye(size)[::-1] * 2.0
    tf.matmul(weights, weights)  # TensorFlow loads cuBLASLt
    part, threads = size * size * 4, size * size
    steps = [late((INPUT, 0), (ARENA, 0), threads), matmul(size, (ARENA, 0), (INPUT, 1), (ARENA, part)),
             late((ARENA, part), (OUTPUT, 0), threads), [COPY, ARENA, 0, INPUT, 1, part],
             late((ARENA, 0), (OUTPUT, 1), threads)]
    region = regions.add(lambda key: WAITING.executable([[size, size], [size, size]], steps, arena=(2 * part,)))
    values = [np.arange(size * size, dtype=np.float32).reshape(size, size) % 100 + i for i in range(9)]
    inputs = [tf.constant(value) * 1.0 for value in values]
    for run in range(100):
        i = run % 9
        result, copied = regions.call(region, [inputs[i], weights], types=[tf.float32, tf.float32])
        np.testing.assert_array_equal(result, (values[i] + 1)[:, ::-1] * 2 + 1)
        np.testing.assert_array_equal(copied, weights + 1)
    [record] = [r for r in regions.library.graphs() if r.region == region]
    assert (record.graphs, record.refused, record.failures, record.error) == (1, 0, 0, "")
    assert record.programmatic == programmatic
