"""Matmuls on one core of this machine's CPU: by a kernel of ours, and by the library's call that it takes the place of.
Both have operands in the second cache where they fit; the least of several turns, for other programs only add.

    python -m tools.cpu_matmuls                     # benchmarks/cpu_matmuls.csv
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from absl import app, flags

from tf_stitch.ir.dtypes import DType
from tools.benchmark.cpu_matmul_cases import FORMS, SIZES, kernel_us
from tools.benchmark.matmul_runner import MatmulRunner, plain_matmul
from tools.calibrate.measure import marginal

ROOT = Path(__file__).resolve().parents[1]
CALLS, FEW = 12, 16

_ROUNDS = flags.DEFINE_integer("rounds", 5, "turns")
_OUT = flags.DEFINE_string("out", str(ROOT / "benchmarks" / "cpu_matmuls.csv"), "rows")


def library_us(runner: MatmulRunner, sizes: tuple[int, int, int], rounds: int) -> float:
    """Microseconds of the library's call alone, operands as they lie."""
    gemm = plain_matmul(DType.F32, 1, *sizes)
    few, many = (min(min(runner.seconds(gemm, count, CALLS)) for _ in range(rounds)) for count in (FEW, 3 * FEW))
    return marginal(few, many, FEW, 3 * FEW) * 1e6


def main(argv: Sequence[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError("no arguments, please, but flags")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    runner, rows = MatmulRunner("/CPU:0"), list[dict[str, Any]]()
    times = iter(kernel_us(_ROUNDS.value))
    for sizes in SIZES:
        called = library_us(runner, sizes, _ROUNDS.value)
        for form in FORMS:
            ours = next(times)
            rows.append({"rows": sizes[0], "terms": sizes[1], "columns": sizes[2], "form": form,
                         "kernel_us": round(ours, 1), "kernel_gflops": round(2e-3 * math.prod(sizes) / ours, 1),
                         "library_us": "" if form else round(called, 1)})
            print(*rows[-1].values(), flush=True)
    with Path(_OUT.value).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    app.run(main)
