"""Calibration of what runs beside kernels: matmuls by the library, and TensorFlow's own cost of an op.

Needs a TensorFlow that sees the device."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tf_stitch.device.matmul_times import Sizes
from tf_stitch.device.profile import DeviceProfile
from tf_stitch.errors import ProfileError
from tf_stitch.ir.dtypes import DType
from tools.benchmark.matmul_runner import MatmulRunner, plain_matmul
from tools.calibrate.measure import marginal, rounded

BATCHES = (1, 16)
SIZES = {"cpu": (1, 8, 32, 128, 512), "cuda": (1, 16, 64, 256, 1024, 4096)}
"""Of each of m, k and n; further ones take as long as their multiply-adds say."""
DTYPES: dict[str, tuple[DType, ...]] = {"cpu": (DType.F32,), "cuda": ()}
"""None on a GPU, where a call takes the host longer than the matmuls in it: on an H200 a tenth of the times were below
what its arithmetic allows. Those of few rows are measured without TensorFlow (few_rows.py)."""
BUSY = {"cpu": 1 << 22, "cuda": 1 << 33}
"""Multiply-adds of one call, about: what is measured takes longer than what the host adds."""
CHECKED: dict[str, tuple[Sizes, ...]] = {
    "cpu": ((1, 24, 200, 24), (1, 96, 96, 384), (1, 300, 64, 64), (8, 20, 16, 20)),
    "cuda": ((1, 128, 768, 768), (1, 1536, 768, 3072), (1, 512, 512, 2048), (144, 128, 64, 128))}
"""Sizes between these and beyond."""
ROUNDS = {"cpu": 4, "cuda": 1}
"""Apart in time: a machine that is busy now may not be so later."""
MOST_IN_A_ROW, CALLS = {"cpu": 48, "cuda": 16}, 12
CHAIN = 200
PADDED = 16
"""Every library has matmuls of multiples of this."""


class Executor:
    """Measures in TensorFlow.

    Raises:
        ProfileError: it does not see the device.
    """

    def __init__(self, target: str) -> None:
        device = "GPU" if target == "cuda" else "CPU"
        found = tf.config.list_physical_devices(device)
        if not found:
            raise ProfileError(f"TensorFlow, which runs matmuls, sees no {device}; --parts=kernels needs none")
        if target == "cuda":
            tf.config.experimental.set_memory_growth(found[0], True)  # kernels are timed in this process, too
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # it would fold chains
        self._target, self._device = target, f"/{device}:0"
        self._runner = MatmulRunner(self._device)

    def calibrate(self) -> dict[str, Any]:
        """op_us, and matmuls of a CPU."""
        short, long = (min(self._runner.chain_seconds(n, CALLS)) for n in (CHAIN, 3 * CHAIN))
        matmuls = {dtype.value: self._matmul_times(dtype) for dtype in DTYPES[self._target]}
        found = {"op_us": marginal(short, long, CHAIN, 3 * CHAIN) * 1e6}
        return rounded(found | {"matmuls": matmuls} if matmuls else found)

    def check_errors(self, profile: DeviceProfile) -> Iterator[str]:
        """A line for matmuls of sizes between those of the grid: measured and predicted."""
        for sizes in CHECKED[self._target] if DTYPES[self._target] else ():
            measured, predicted = self._microseconds(DType.F32, sizes), profile.matmul_us("float32", sizes)
            yield f"matmul {'x'.join(map(str, sizes))}: measured {measured:.2f} us, predicted {predicted:.2f}"

    def _matmul_times(self, dtype: DType) -> dict[str, Any]:
        sizes = SIZES[self._target]
        grid: list[Sizes] = [(b, m, k, n) for b in BATCHES for m in sizes for k in sizes for n in sizes]
        times = [math.inf] * len(grid)
        for turn in range(ROUNDS[self._target]):
            for i, point in enumerate(grid):
                times[i] = min(times[i], self._supported(dtype, point))
            print(f"{dtype.value} matmuls: round {turn + 1}", file=sys.stderr)
        return {"axes": [BATCHES, sizes, sizes, sizes], "us": times}

    def _supported(self, dtype: DType, sizes: Sizes) -> float:
        """As _microseconds; where the library has no such matmul, that of sizes which every library has."""
        try:
            return self._microseconds(dtype, sizes)
        except tf.errors.OpError as error:
            batch, *dims = sizes
            m, k, n = (math.ceil(d / PADDED) * PADDED for d in dims)
            print(f"{dtype.value} {sizes}: {str(error).splitlines()[0]}; {m}x{k}x{n} instead", file=sys.stderr)
            return self._microseconds(dtype, (batch, m, k, n))

    def _microseconds(self, dtype: DType, sizes: Sizes) -> float:
        """One matmul more in a row of them; the least of several calls, for other programs only add."""
        few = min(max(BUSY[self._target] // math.prod(sizes), 1), MOST_IN_A_ROW[self._target])
        many = 3 * few
        gemm = plain_matmul(dtype, *sizes)
        short, long = (min(self._runner.seconds(gemm, n, CALLS)) for n in (few, many))
        return marginal(short, long, few, many) * 1e6
