"""StitchWhile on a GPU: its body there, what numbers rows and mostly the condition on the host."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.native.conftest import ARENA, COPY, INPUT, OUTPUT, Regions, shapes_of
from tests.native.gpu_kernels import Image, Place, entry
from tests.native.loop_kernels import I32, KERNELS, Symbols, counting, less
from tests.native.loops import (
    Array,
    Beside,
    HostRegion,
    Loop,
    LoopRegions,
    Words,
    carried,
    element,
    expected,
    fixed,
    last,
    stack,
)
from tests.native.test_profitability_check import DECIDED
from tests.native.test_while_op import fall_back, fallback_count

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="no GPU")]

# next_to: y = x + 1, of one thread. less_to: z = x < y. mix_to: z[i] = 5 x[i] + 3 y[i] + c for each thread.
IMAGE = Image(
    entry("next_to", 2, "ld.global.u32 %r0, [%a0]; add.u32 %r0, %r0, 1; st.global.u32 [%a1], %r0;", by_thread=False),
    entry("less_to", 3, """ld.global.u32 %r0, [%a0]; ld.global.u32 %r1, [%a1];
setp.lt.s32 %p, %r0, %r1; selp.u32 %r2, 1, 0, %p; st.global.u8 [%a2], %r2;""", by_thread=False),
    entry("mix_to", 3, """ld.global.u32 %r0, [%a0]; ld.global.u32 %r1, [%a1]; cvt.u32.u64 %r2, %number;
mad.lo.u32 %r2, %r0, 5, %r2; mad.lo.u32 %r2, %r1, 3, %r2; st.global.u32 [%a2], %r2;""", number=True))
WIDTH = 8


def mix(x: Place, y: Place, z: Place, constant: int) -> list[int]:
    return IMAGE.launch("mix_to", x, y, z, threads=WIDTH, sizes=[constant])


def mixing(key: tuple[int, ...]) -> list[int]:
    """Words of a body of x and a row: 5 (5 x + 3 row + 1) + 3 x + 2, in three steps, a copy among them."""
    assert shapes_of(key) == [(WIDTH,)] * 2
    return IMAGE.executable([(WIDTH,)], [
        mix((INPUT, 0), (INPUT, 1), (ARENA, 0), 1), mix((ARENA, 0), (INPUT, 0), (ARENA, 256), 2),
        [COPY, OUTPUT, 0, ARENA, 256, 4 * WIDTH]], (512,))


def mixed(x: Array, row: Array) -> list[Array]:
    with np.errstate(over="ignore"):
        return [5 * (5 * x + 3 * row + 1) + 3 * x + 2]


@pytest.fixture(scope="module")
def kernel(compile_c: Callable[[str], Symbols]) -> Symbols:
    return compile_c(KERNELS)


@pytest.fixture(autouse=True)
def on_gpu() -> object:
    with tf.device("/GPU:0"):
        yield


def draw(rows: int) -> tuple[Array, Array]:
    random = np.random.default_rng(rows)
    return random.integers(0, 100, WIDTH, I32), random.integers(0, 100, (rows, WIDTH), I32)


def on_device(x: Array) -> tf.Tensor:
    """What TensorFlow's int32 kernels would leave in host memory."""
    return tf.cast(tf.cast(x, tf.float32) * 1.0, tf.int32)


ROWS = Loop((carried(0, 0), element(1)), (), (last(0, 0), stack(0), stack(0, 2, 1), stack(0, -1, 1)))
"""Inputs x, rows; for the host i, n, the number of rows."""
COUNTER = Loop((carried(0, 0),), (carried(0, 0), fixed(1)), ())


def test_rows_and_stacks(regions: Regions, kernel: Symbols) -> None:
    host = HostRegion(COUNTER, counting(kernel), [tf.int32])
    loop = LoopRegions(regions, ROWS, [tf.int32], less(kernel), mixing, host)
    iterations = 0
    for rows, n in ((1, 1), (40, 40), (40, 17), (40, 0), (130, 130), (40, 40), (40, 40)):
        x, all_rows = draw(rows)
        for_host = [np.array(0, I32), np.array(n, I32), np.array(rows, I32)]
        results = loop(on_device(x), on_device(all_rows), types=[tf.int32] * 4, host_inputs=for_host)
        assert all("GPU" in result.device for result in results)
        beside = Beside(COUNTER, for_host, lambda i, *_: [np.asarray(i + 1)], decides=True)
        wanted = expected(ROWS, [x, all_rows], mixed, lambda i, n: bool(i < n), beside)
        for result, value in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(result, value, strict=True)
        iterations += n
    assert loop.counts() == {"runs": 7, "iterations": iterations, "fallbacks": 0, "preferred_fallbacks": 0}
    [record] = [r for r in regions.library.graphs() if r.region == loop.body]
    print(f"{record}: {record.host_ns / record.launches / 1e3:.1f} us a graph")
    assert record.graphs == 1
    assert record.failures == 0
    assert record.launches > iterations // 2


def test_rows_by_numbers(regions: Regions, kernel: Symbols) -> None:
    """Of an order that the host reads; rows that none has written are zeros."""
    roles = Loop((carried(0, 0), element(1, 3)), (), (last(0, 0), stack(0, 2, 3)))
    numbering = Loop((carried(0, 0), element(3)), COUNTER.condition, ())
    loop = LoopRegions(regions, roles, [tf.int32], less(kernel), mixing,
                       HostRegion(numbering, counting(kernel), [tf.int32]))
    x, all_rows = draw(20)
    order = np.random.default_rng(0).permutation(20).astype(I32)
    for n in (0, 7, 20):
        for_host = [np.array(0, I32), np.array(n, I32), np.array(20, I32), order]
        results = loop(on_device(x), on_device(all_rows), types=[tf.int32] * 2, host_inputs=for_host)
        beside = Beside(numbering, for_host, lambda i, _: [np.asarray(i + 1)], decides=True)
        wanted = expected(roles, [x, all_rows], mixed, lambda i, n: bool(i < n), beside)
        for result, value in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(result, value, strict=True)
    assert loop.counts()["fallbacks"] == 0


DECIDED_THERE = Loop((carried(0, 0), carried(2, 1), element(3)), (carried(0, 0), fixed(1)),
                     (last(0, 0), last(2, 1), stack(1)))
"""Inputs i, n, x, rows, all on the device."""


def deciding(key: tuple[int, ...]) -> list[int]:
    return IMAGE.executable([()], [IMAGE.launch("less_to", (INPUT, 0), (INPUT, 1), (OUTPUT, 0))])


def counting_and_mixing(key: tuple[int, ...]) -> list[int]:
    return IMAGE.executable([(), (WIDTH,)], [IMAGE.launch("next_to", (INPUT, 0), (OUTPUT, 0)),
                                           mix((INPUT, 1), (INPUT, 2), (OUTPUT, 1), 7)])


def test_a_condition_on_the_device(regions: Regions) -> None:
    loop = LoopRegions(regions, DECIDED_THERE, [tf.int32] * 2, deciding, counting_and_mixing)
    x, rows = draw(50)
    for n in (0, 1, 2, 50):
        inputs = [np.array(0, I32), np.array(n, I32), x, rows]
        # An input for the host that nobody reads: a loop on a GPU is split.
        results = loop(*map(on_device, inputs), types=[tf.int32] * 3, host_inputs=[np.array(0, I32)])
        with np.errstate(over="ignore"):
            wanted = expected(DECIDED_THERE, inputs, lambda i, x, row: [np.asarray(i + 1), 5 * x + 3 * row + 7],
                              lambda i, n: bool(i < n), Beside())
        for result, value in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(result, value, strict=True)
    assert loop.counts() == {"runs": 4, "iterations": 53, "fallbacks": 0, "preferred_fallbacks": 0}


def test_rows_that_are_not_there(regions: Regions, kernel: Symbols) -> None:
    reasons: list[str] = []
    loop = LoopRegions(regions, ROWS, [tf.int32], less(kernel), mixing,
                       HostRegion(COUNTER, counting(kernel), [tf.int32]), fallback=fall_back(reasons))
    x, rows = draw(4)
    for_host = [np.array(0, I32), np.array(9, I32), np.array(9, I32)]
    for result in loop(on_device(x), on_device(rows), types=[tf.int32] * 4, host_inputs=for_host):
        assert int(result) == -1
    assert reasons == ["a loop reads a row that is not there"]


def counting_there(key: tuple[int, ...]) -> list[int]:
    return IMAGE.executable([()], [IMAGE.launch("next_to", (INPUT, 0), (OUTPUT, 0))])


@pytest.mark.parametrize("works", [True, False])
def test_its_own_nodes(regions: Regions, kernel: Symbols, check: None, works: bool) -> None:
    """TensorFlow's loop on the op's inputs alone: timed, or because no kernel can be had."""
    own = fallback_count()
    words: Words = counting_there if works else lambda key: None  # type: ignore[assignment,return-value]
    loop = LoopRegions(regions, Loop((carried(0, 0), fixed(1)), (), (last(0, 0),)), [tf.int32], less(kernel), words,
                       HostRegion(COUNTER, counting(kernel), [tf.int32]), subgraph=lambda reason: own)

    @tf.function
    def run(i: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
        return loop(i, n, types=[tf.int32], host_inputs=[i, n])[0] * 1

    calls = DECIDED if works else 3
    for _ in range(calls):
        assert int(run(on_device(np.array(3, I32)), on_device(np.array(40, I32)))) == 40
    counts = loop.counts()
    if works:
        assert loop.shadows() > 0
        assert counts["fallbacks"] == 0
        [(device, _, outcome)] = regions.settled[loop.region]
        print(f"{outcome}: {outcome.stitched_us / 37:.1f} us an iteration, TensorFlow {outcome.fallback_us / 37:.1f}")
        assert device >= 0
        assert not outcome.prefers_fallback
    else:
        assert counts == {"runs": 0, "iterations": 0, "fallbacks": 3, "preferred_fallbacks": 0}


def test_time_of_an_iteration(regions: Regions, kernel: Symbols) -> None:
    """Nothing waits: an iteration takes little more than its launch."""
    loop = LoopRegions(regions, ROWS, [tf.int32], less(kernel), mixing,
                       HostRegion(COUNTER, counting(kernel), [tf.int32]))
    x, rows = (on_device(a) for a in draw(1000))
    for_host = [np.array(0, I32), np.array(1000, I32), np.array(1000, I32)]
    for _ in range(5):
        loop(x, rows, types=[tf.int32] * 4, host_inputs=for_host)[0].numpy()
    seconds = []
    for _ in range(5):  # the fastest: other tests share the GPU and its processor
        start = time.perf_counter()
        loop(x, rows, types=[tf.int32] * 4, host_inputs=for_host)[0].numpy()
        seconds.append(time.perf_counter() - start)
    each = min(seconds) / 1000 * 1e6
    print(f"{each:.1f} us an iteration of three steps")
    assert each < 60
