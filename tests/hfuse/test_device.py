"""Fused and separate kernels on a GPU: equal to the last bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.hfuse.generator import random_kernel
from tests.hfuse.sources import Case
from tests.hfuse.test_fuse import CASES, PAIRS
from tests.support.handwritten_on_cpu import KERNELS, Argument
from tf_stitch.hfuse.device import (
    HOLD,
    Code,
    DeviceProfiler,
    alone,
    fused_kernel,
    processor,
    time_ms,
    time_streams_ms,
)
from tf_stitch.hfuse.fuse import fuse
from tf_stitch.hfuse.launch import Launch
from tf_stitch.hfuse.search import best, search
from tf_stitch.hfuse.source import find_kernel, parse
from tf_stitch.runtime.device_run import gpu_is_here

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_is_here(), reason="no GPU")]
EXAMPLES = 12
"""Each compiles three kernels; more are run on a CPU (test_fuse.py)."""


def architecture() -> str:
    import cupy

    return str(cupy.cuda.Device().compute_capability)


def on_device(case: Case, arguments: Sequence[Argument]) -> list[Any]:
    """Arguments as CuPy passes them: a struct as a number of its bytes."""
    import cupy

    kinds = [p.type.get_canonical().kind.name for p in case.kernel().parameters]
    return [
        cupy.asarray(a)
        if isinstance(a, np.ndarray)
        else np.float32(a)
        if isinstance(a, float)
        else np.int64(a)
        if kind == "RECORD"
        else np.int32(a)
        for a, kind in zip(arguments, kinds, strict=True)
    ]


def check(one: Case, two: Case, vertical: bool = False) -> None:
    import cupy

    fused = fuse([one.kernel(), two.kernel()], [one.shape, two.shape], architecture(), vertical)
    got, want = ([on_device(case, case.arguments(i)) for i, case in enumerate((one, two))] for _ in range(2))
    fused_kernel(fused)([*got[0], *got[1]])
    for case, arguments in zip((one, two), want, strict=True):
        alone(case.kernel(), case.shape)(arguments)
    for a, b in zip(got[0] + got[1], want[0] + want[1], strict=True):
        if isinstance(a, cupy.ndarray):
            np.testing.assert_array_equal(a.get().view(np.uint8), b.get().view(np.uint8), err_msg=fused.source)


@pytest.mark.parametrize(("pair", "vertical"), [(pair, vertical) for pair in PAIRS for vertical in (False, True)
                                               if not (vertical and pair[0] == "early")])
def test_pairs(pair: tuple[str, str], vertical: bool) -> None:
    check(CASES[pair[0]], CASES[pair[1]], vertical)


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_random_pairs(seed: int) -> None:
    check(random_kernel(100 + 2 * seed), random_kernel(101 + 2 * seed))


def test_times_leave_out_what_enqueueing_takes() -> None:
    """Two kernels of half a millisecond in two streams take that long, and so does each by itself."""
    import cupy

    hold = Code(HOLD, "hold").module().get_function("hold")
    half = [lambda: hold((1,), (1,), (np.int64(500),))] * 2
    assert 0.49 < time_ms(half[0]) < 0.55
    assert 0.49 < time_streams_ms(half) < 0.58
    cupy.cuda.Device().synchronize()


def test_search_of_the_best_partition() -> None:
    """As Fig. 4 has it: batchnorm and hist in one block of 1024 threads."""
    import cupy

    kernels = [find_kernel(parse(KERNELS / f"{name}.cu", architecture()), name) for name in ("batchnorm", "hist")]
    launches = [Launch((None, 16, 1), (64, 1, 1)), Launch((None, 1, 1), (64, 1, 1), None, 400)]
    arguments = [
        [
            cupy.ones((8, 64, 500), np.float32),
            cupy.zeros(64, np.float32),
            cupy.zeros(64, np.float32),
            *map(np.int32, (8, 64, 500)),
            np.float32(1e-5),
        ],
        [
            cupy.ones(10_000, np.float32),
            cupy.zeros(100, np.int32),
            np.int32(10_000),
            np.int32(100),
            np.float32(0),
            np.float32(2),
        ],
    ]
    found = search(kernels, launches, 1024, architecture(), processor(), DeviceProfiler(kernels, arguments))
    assert {c.threads for c in found} == {(d, 1024 - d) for d in range(128, 1024, 128)}
    assert best(found).profile is not None
    assert not [c.problem for c in found if c.problem]
    np.testing.assert_allclose(arguments[0][1].get(), 1)
    np.testing.assert_array_equal(arguments[1][1].get().nonzero()[0], [50])
