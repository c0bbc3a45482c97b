"""Matmuls of few rows that are timed: each kernel is another one, built here; the table says what was measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.differential.runner import cache
from tf_stitch.kernel_ir.interpreter import interpret_program
from tools.benchmark.raw_rows import raw_rows, read_rows
from tools.benchmark.skinny_cases import cases
from tools.skinny_matmuls import table

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_kernels_of_a_matmul() -> None:
    case = min(cases(), key=lambda case: case.gemm.nbytes)
    built = case.build(cache())
    assert len({one.name for one in built}) == len(built) > 10
    random = np.random.default_rng(0)
    gemm = case.gemm
    x = random.standard_normal((gemm.batch, gemm.m, gemm.k)).astype(np.float32)
    w = random.standard_normal((gemm.batch, gemm.k, gemm.n)).astype(np.float32)
    assert not gemm.b.transposed
    for kernel, one in list(zip(case.kernels, built, strict=True))[::6]:
        y = np.full(gemm.batch * gemm.m * gemm.n, np.nan, np.float32)
        arrays = {"x": x.reshape(-1), "w": w.reshape(-1), "y": y}
        interpret_program(kernel.program, {b.name: arrays[key] for b, key in
                                           zip(kernel.program.parameters, one.arguments, strict=True)})
        np.testing.assert_allclose(y, (x @ w).reshape(-1), rtol=1e-4, atol=1e-4)


def test_the_committed_table() -> None:
    document = read_rows(raw_rows("skinny_matmuls"))
    assert all(row["right"] for row in document["rows"])
    assert (BENCHMARKS / "skinny_matmuls.md").read_text() == table(document)
