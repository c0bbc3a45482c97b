"""Microseconds of matrix products as library calls, with and without what they can take over from kernels.

Each product runs many times in a row as one StitchOp, on a GPU as a CUDA graph: what is measured is a product among
others, not its launch from the host. Prints a table.

    python tools/product_benchmark.py
    python tools/product_benchmark.py --device=cpu --sizes=128x768x768 --dtype=float16
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from absl import app, flags

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import tensorflow as tf

from tf_stitch.config import load_config
from tf_stitch.ir.activations import Activation
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.matrices import MatrixLayout
from tf_stitch.ir.types import TensorType
from tf_stitch.native.bindings import load_op
from tf_stitch.runtime.executable import BufferRef, Executable, GemmStep, Space, encode
from tf_stitch.runtime.library_calls import Gemm

_DEVICE = flags.DEFINE_enum("device", "gpu", ["gpu", "cpu"], "where")
_DTYPE = flags.DEFINE_enum("dtype", "float32", ["float32", "float16", "bfloat16"], "element type")
_SIZES = flags.DEFINE_list("sizes", ["256x256x256", "512x512x512", "512x512x2048", "512x2048x512", "128x768x768",
                                     "128x768x3072", "128x3072x768", "4096x768x768", "4096x768x3072"], "m x k x n")
_ROUNDS = flags.DEFINE_integer("rounds", 20, "calls of which the median is taken, after the first ones")

REPEATS = 50
WARM_UP = 8
"""Calls until the op runs a CUDA graph, and some more."""
VARIANTS: dict[str, dict[str, Any]] = {
    "product": {}, "+ bias": {"bias": True}, "+ addend": {"addend": True}, "both": {"bias": True, "addend": True},
    "bias relu": {"bias": True, "activation": Activation.RELU},
    "bias gelu": {"bias": True, "activation": Activation.GELU}}


def product(sizes: str) -> Gemm:
    m, k, n = (int(d) for d in sizes.split("x"))
    return Gemm(DType(_DTYPE.value), 1, m, n, k, MatrixLayout(False, k, m * k), MatrixLayout(False, n, k * n),
                MatrixLayout(False, n, m * n))


def in_a_row(gemm: Gemm) -> Executable:
    """The product REPEATS times over the same memory."""
    counts = [size // gemm.dtype.size for size in gemm.operand_bytes()]
    args = (*(BufferRef(Space.INPUT, i) for i in range(len(counts) - 1)), BufferRef(Space.OUTPUT, 0))
    return Executable(tuple(f"x{i}" for i in range(len(counts) - 1)), (), (TensorType(gemm.dtype, (counts[-1],)),), (),
                      0, (GemmStep(gemm, args),) * REPEATS, None)


class Runner:
    """Runs executables as regions of their own."""

    def __init__(self) -> None:
        self._words: list[list[int]] = []
        self._library = load_op(load_config().cache_dir)
        self._library.set_callbacks(lambda region, device, key: self._words[region], lambda region, reason: None, _fail)

    def microseconds(self, gemm: Gemm) -> float:
        """Median of one product."""
        region = len(self._words)
        self._words.append(encode(in_a_row(gemm), {}))
        operands = [tf.cast(tf.random.normal([size // gemm.dtype.size]), gemm.dtype.value)
                    for size in gemm.operand_bytes()[:-1]]

        def call() -> float:
            start = time.perf_counter()
            [out] = self._library.raw_ops.stitch_op(inputs=operands, variables=[], Tout=[gemm.dtype.value],
                                                    region=region, output_shapes=[])
            np.asarray(out[:1])  # waits
            return (time.perf_counter() - start) / REPEATS * 1e6

        return statistics.median([call() for _ in range(WARM_UP + _ROUNDS.value)][WARM_UP:])


def _fail(region: int, call: object) -> None:
    raise RuntimeError(f"region {region} did not run: the library has no such product")


def main(argv: Sequence[str]) -> None:
    print(f"{'m x k x n':16}" + "".join(f"{name:>12}" for name in VARIANTS))
    with tf.device(f"/{_DEVICE.value}:0"):
        runner = Runner()
        for sizes in _SIZES.value:
            times = [runner.microseconds(replace(product(sizes), **variant)) for variant in VARIANTS.values()]
            print(f"{sizes:16}" + "".join(f"{us:12.2f}" for us in times), flush=True)


if __name__ == "__main__":
    app.run(main)
