"""Microseconds of matmuls as library calls, with and without what they can take over from kernels.

Each matmul runs many times in a row as one StitchOp, on a GPU as a CUDA graph: what is measured is a matmul among
others, not its launch from the host. Prints a table.

    python -m tools.matmul_benchmark
    python -m tools.matmul_benchmark --device=cpu --sizes=128x768x768 --dtype=float16
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from absl import app, flags

from tf_stitch.ir.activations import Activation
from tf_stitch.ir.dtypes import DType
from tf_stitch.libraries.gemm import Gemm
from tools.benchmark.matmul_runner import MatmulRunner, plain_matmul

ROOT = Path(__file__).resolve().parents[1]


_DEVICE = flags.DEFINE_enum("device", "gpu", ["gpu", "cpu"], "where")
_DTYPE = flags.DEFINE_enum("dtype", "float32", ["float32", "float16", "bfloat16"], "element type")
_SIZES = flags.DEFINE_list("sizes", ["256x256x256", "512x512x512", "512x512x2048", "512x2048x512", "128x768x768",
                                     "128x768x3072", "128x3072x768", "4096x768x768", "4096x768x3072"], "m x k x n")
_ROUNDS = flags.DEFINE_integer("rounds", 20, "calls of which the median is taken, after the first ones")

REPEATS = 50
VARIANTS: dict[str, dict[str, Any]] = {
    "matmul": {}, "+ bias": {"bias": True}, "+ addend": {"addend": True}, "both": {"bias": True, "addend": True},
    "bias relu": {"bias": True, "activation": Activation.RELU},
    "bias gelu": {"bias": True, "activation": Activation.GELU}}


def microseconds(runner: MatmulRunner, gemm: Gemm) -> float:
    """Median of one matmul."""
    return statistics.median(runner.seconds(gemm, REPEATS, _ROUNDS.value)) / REPEATS * 1e6


def main(argv: Sequence[str]) -> None:
    print(f"{'m x k x n':16}" + "".join(f"{name:>12}" for name in VARIANTS))
    runner = MatmulRunner(f"/{_DEVICE.value}:0")
    for sizes in _SIZES.value:
        matmul = plain_matmul(DType(_DTYPE.value), 1, *(int(d) for d in sizes.split("x")))
        times = [microseconds(runner, replace(matmul, **variant)) for variant in VARIANTS.values()]
        print(f"{sizes:16}" + "".join(f"{us:12.2f}" for us in times), flush=True)


if __name__ == "__main__":
    app.run(main)
