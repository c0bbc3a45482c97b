"""Tiles of a CPU's matmuls: what holds of them, what they cost, what they mean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tf_stitch.errors import VerifyError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.cost import SIMD_LANES, block_cycles
from tf_stitch.kernel_ir.count_work import count_work
from tf_stitch.kernel_ir.index import Var, constant, var
from tf_stitch.kernel_ir.interpreter import interpret_program
from tf_stitch.kernel_ir.tile_product import BUSY_ROWS
from tf_stitch.kernel_ir.verifier import verify_program

F32 = DType.F32
M, K, N, ROWS = 5, 3, 16, 2
TILE = k.TileProduct("r", N, ROWS, N, K, "a", "", var(Var(k.BLOCK, 3)) * (ROWS * K), K, 1, "b", "", constant(0), N,
                     constant(M) - var(Var(k.BLOCK, 3)) * ROWS)


def program(tile: k.TileProduct = TILE, threads: int = 1, *before: k.Stmt) -> k.Program:
    """Each task stores the first column of its tile."""
    row = Var("row", ROWS)
    store = k.Store("out", var(Var(k.BLOCK, 3)) * ROWS + var(row), k.Element("r", var(row) * N, F32))
    body = (k.Array("r", F32, ROWS * N), *before, tile, k.For(row, (store,), limit=tile.row_limit))
    buffers = (k.Buffer("a", F32, M * K, k.Mode.READ), k.Buffer("b", F32, K * N, k.Mode.READ),
               k.Buffer("out", F32, M, k.Mode.WRITE))
    return k.Program(buffers, 3, threads, body)


def test_what_it_means() -> None:
    random = np.random.default_rng(1)
    a, b = random.standard_normal((M, K), np.float32), random.standard_normal((K, N), np.float32)
    buffers = {"a": a.ravel(), "b": b.ravel(), "out": np.zeros(M, np.float32)}
    verify_program(program())
    interpret_program(program(), buffers)
    np.testing.assert_allclose(buffers["out"], a @ b[:, 0], rtol=1e-6)


def test_what_must_hold() -> None:
    for wrong, message in ((replace(TILE, columns=8), "a tile of 8 columns"), (replace(TILE, width=15), "no room"),
                           (replace(TILE, rows=3), "no room"), (replace(TILE, a_array="r"), "a buffer or in an array"),
                           (replace(TILE, b=""), "a buffer or in an array"), (replace(TILE, results="s"), "array s")):
        with pytest.raises(VerifyError, match=message):
            verify_program(program(wrong))
    with pytest.raises(VerifyError, match="one thread in a block of several"):
        verify_program(program(threads=2))


def test_it_reads_no_element_that_was_not_written() -> None:
    packed = replace(TILE, b="", b_array="p")
    with pytest.raises(VerifyError, match=r"p\[0\] is read before it is written"):
        interpret_program(program(packed, 1, k.Array("p", F32, K * N)),
                          {"a": np.ones(M * K, np.float32), "b": np.ones(K * N, np.float32),
                           "out": np.zeros(M, np.float32)})


def test_what_it_costs() -> None:
    """Few rows take as long as those that keep the processor busy."""
    work = count_work(program())
    assert work.vector == {(F32, OpKind.DOT): BUSY_ROWS * N * K}
    assert {(a.buffer, a.count) for a in work.accesses if not a.store} == {("a", ROWS * K), ("b", K * N)}
    assert block_cycles((TILE,)) == BUSY_ROWS * N * K // SIMD_LANES
