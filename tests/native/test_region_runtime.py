"""Executables of a region by signature: when they are built, kept, tried again and dropped."""

from __future__ import annotations

import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.native.conftest import COPY, INPUT, OUTPUT, Regions, executable
from tf_stitch.errors import BuildInterruptedError, BuildPending
from tf_stitch.native.fallback_call import FallbackCall

RAMP = np.arange(8, dtype=np.float32)


def copy_of(key: tuple[int, ...]) -> list[int]:
    """Words that copy the input of a key [flags, 1, n]."""
    return executable([[key[2]]], [[COPY, OUTPUT, 0, INPUT, 0, 4 * key[2]]])


def test_signatures_are_capped(regions: Regions) -> None:
    region = regions.add(copy_of)
    for n in range(1, 601):
        assert regions.call(region, [tf.ones([n])])[0].shape == (n,)
    assert len(regions.builds[region]) == 600
    regions.call(region, [tf.ones([600])])
    regions.call(region, [tf.ones([120])])
    assert len(regions.builds[region]) == 600, "what was used lately is kept"
    regions.call(region, [tf.ones([1])])
    assert len(regions.builds[region]) == 601, "what was not is built again"


def test_signatures_come_and_go_under_concurrent_calls(regions: Regions) -> None:
    region = regions.add(copy_of)

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for n in rng.integers(1, 1200, 400):
            x = np.arange(n, dtype=np.float32)
            np.testing.assert_array_equal(regions.call(region, [tf.constant(x)])[0], x)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, seed) for seed in range(4)]:
            done.result()


def test_a_pending_build_runs_the_fallback_subgraph(regions: Regions) -> None:
    ready = threading.Event()

    def build(key: tuple[int, ...]) -> list[int]:
        if not ready.is_set():
            raise BuildPending
        return copy_of(key)

    def fallback(call: FallbackCall) -> None:
        assert call.reason == ""
        call.set_output(0, call.inputs[0] + 1)

    region = regions.add(build, fallback)
    assert regions.call(region, [tf.zeros([4])])[0][0] == 1
    for _ in range(20):
        assert regions.call(region, [tf.zeros([4])])[0][0] == 1
    time.sleep(0.03)
    ready.set()
    assert regions.call(region, [tf.zeros([4])])[0][0] == 0
    assert regions.library.region_runs(region) == 1
    assert regions.library.region_fallbacks(region) == 21


def test_an_interrupted_build_is_tried_again(regions: Regions) -> None:
    reasons: list[str] = []
    passes = False

    def build(key: tuple[int, ...]) -> list[int]:
        if passes:
            return copy_of(key)
        raise BuildInterruptedError("the disk is full")

    def fallback(call: FallbackCall) -> None:
        reasons.append(call.reason)
        call.set_output(0, call.inputs[0] + 1)

    def results(region: int, calls: int) -> list[float]:
        return [float(regions.call(region, [tf.zeros([4])])[0][0]) for _ in range(calls)]

    mended, never = regions.add(build, fallback), regions.add(build, fallback)
    assert results(mended, 5) + results(never, 5) == [1] * 10
    assert [len(regions.builds[region]) for region in (mended, never)] == [1, 1], "not at once"
    assert set(reasons) == {"the disk is full"}
    time.sleep(0.6)
    assert results(never, 5) == [1] * 5
    passes = True
    assert results(mended, 5) == [0] * 5
    time.sleep(0.6)
    assert results(never, 5) == [1] * 5, "it waits longer each time"
    assert [len(regions.builds[region]) for region in (mended, never)] == [2, 2]


def test_executables_go_with_the_functions_that_run_them(regions: Regions) -> None:
    def traced() -> Any:
        return tf.function(lambda x: regions.call(region, [x])[0]).get_concrete_function(tf.TensorSpec([8], tf.float32))

    region = regions.add(copy_of)
    first, second = traced(), traced()
    for function in (first, second, first):
        np.testing.assert_array_equal(function(RAMP), RAMP)
    del first, function
    gc.collect()
    second(RAMP)
    assert len(regions.builds[region]) == 1, "the second runs it still"
    del second
    gc.collect()
    traced()(RAMP)
    assert len(regions.builds[region]) == 2
    assert regions.library.region_runs(region) == 5, "counts stay"


def test_cleared_callbacks(regions: Regions) -> None:
    region = regions.add(copy_of)
    regions.call(region, [RAMP])
    regions.library.clear_callbacks()
    try:
        regions.call(region, [RAMP])  # built before: needs no Python
        with pytest.raises(tf.errors.FailedPreconditionError, match="not active"):
            regions.call(region, [tf.zeros([9])])
    finally:
        regions.connect()


def test_an_interrupted_build_goes_on_with_the_fallback_subgraph_when_nobody_can_be_asked(regions: Regions) -> None:
    def build(key: tuple[int, ...]) -> list[int]:
        raise BuildInterruptedError("the disk is full")

    incremented = tf.function(lambda x: x + 1.0).get_concrete_function(tf.TensorSpec([4], tf.float32))
    region = regions.add(build, subgraph=lambda _: bytes(incremented.function_def.SerializeToString()))
    assert regions.call(region, [tf.zeros([4])])[0][0] == 1
    time.sleep(0.6)
    regions.library.clear_callbacks()
    try:
        for _ in range(3):
            assert regions.call(region, [tf.zeros([4])])[0][0] == 1
    finally:
        regions.connect()
    assert len(regions.builds[region]) == 1
