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

from tf_stitch.compiler.program_times import timed_kernels
from tf_stitch.config import load_config
from tf_stitch.device.spec import CPU
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.runtime.host_builder import build_host
from tf_stitch.runtime.host_timer import time_on_host, with_timer
from tf_stitch.runtime.kernel_cache import KernelCache
from tools.benchmark.matmul_runner import MatmulRunner, plain_matmul
from tools.calibrate.kernels import program_of
from tools.calibrate.measure import marginal

ROOT = Path(__file__).resolve().parents[1]
B, F32 = Builder(), DType.F32
SIZES = ((256, 40, 256), (256, 256, 256), (32, 128, 384), (64, 256, 256), (64, 512, 512), (300, 100, 70),
         (1024, 256, 256), (1024, 256, 1024), (128, 768, 768), (512, 512, 512))
"""Rows, terms, columns."""
FORMS = {"": (False, False), "a transposed": (True, False), "b transposed": (False, True)}
CALLS, FEW = 12, 16

_ROUNDS = flags.DEFINE_integer("rounds", 5, "turns")
_OUT = flags.DEFINE_string("out", str(ROOT / "benchmarks" / "cpu_matmuls.csv"), "rows")


def dense(sizes: tuple[int, int, int], form: str) -> Node:
    """relu(a b + bias)."""
    m, k, n = sizes
    transpose_a, transpose_b = FORMS[form]
    a, b = (k, m) if transpose_a else (m, k), (n, k) if transpose_b else (k, n)
    y = B.add(B.dot(B.input("a", F32, a), B.input("b", F32, b), transpose_a, transpose_b), B.input("bias", F32, (n,)))
    return B.maximum(y, B.scalar_like(0, y))


def kernel_us(rounds: int) -> list[float]:
    """Microseconds of our kernels, with a bias and a relu."""
    programs = [program_of([dense(sizes, form)], CPU) for sizes in SIZES for form in FORMS]
    source, kernels = timed_kernels(programs, CPU)
    library = build_host(with_timer(source), CPU.architecture, KernelCache(load_config().cache_dir / "kernels"))
    turns = [time_on_host(library, kernels) for _ in range(rounds)]
    return [min(times) for times in zip(*turns, strict=True)]


def library_us(runner: MatmulRunner, sizes: tuple[int, int, int], rounds: int) -> float:
    """Microseconds of the library's call alone, operands as they lie."""
    gemm = plain_matmul(F32, 1, *sizes)
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
