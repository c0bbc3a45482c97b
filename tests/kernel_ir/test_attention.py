"""How much of attention is left out, and what is counted of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_stitch.ir.causal_masks import CausalMask
from tf_stitch.ir.dtypes import DType
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.attention import AttentionShape, AttentionTiling, Rows
from tf_stitch.kernel_ir.count_work import count_work
from tf_stitch.kernel_ir.index import Var
from tf_stitch.kernel_ir.work import Work

ROWS = Rows(0, 0, 64)
TILING = AttentionTiling(4, 1, 64, 32)
"""Blocks of 64 queries, tiles of 64 keys."""


def shape(queries: int, keys: int, ahead: int | None = 0) -> AttentionShape:
    causal = None if ahead is None else CausalMask(ahead, -1e9)
    return AttentionShape(DType.BF16, 2, 3, queries, keys, 64, 64, ROWS, ROWS, ROWS, ROWS, causal)


@pytest.mark.parametrize(("tiles", "of"), [
    (4, shape(256, 256, None)), (2.5, shape(256, 256)), (1, shape(64, 256)), (3.25, shape(256, 256, 64)),
    (3.25, shape(256, 256, 1)), (1.75, shape(256, 256, -64)), (1, shape(256, 256, -256)), (4, shape(256, 256, 254)),
    (1.5, shape(70, 200)), (2.5, shape(70, 200, 60)), (1.75, shape(256, 100))])
def test_tiles_that_a_block_takes(tiles: float, of: AttentionShape) -> None:
    assert TILING.tiles(of) == tiles


@given(st.integers(1, 300), st.integers(1, 300), st.integers(-350, 350), st.sampled_from([16, 32, 64]))
def test_tiles_hold_what_is_seen(queries: int, keys: int, ahead: int, warp_keys: int) -> None:
    tiling = AttentionTiling(2, 1, warp_keys, 32)
    counts = []
    for first in range(0, queries, tiling.rows):
        seen = [key for query in range(first, min(first + tiling.rows, queries)) for key in range(keys)
                if key <= query + ahead]
        counts.append(max(seen, default=0) // tiling.tile + 1)
    assert tiling.tiles(shape(queries, keys, ahead)) == pytest.approx(sum(counts) / len(counts))


def test_warps_that_share_keys_take_all() -> None:
    sharing = AttentionTiling(1, 4, 16, 32)
    assert not sharing.skips(shape(256, 256))
    assert sharing.tiles(shape(256, 256)) == 4
    assert TILING.skips(shape(256, 256))
    assert not TILING.skips(shape(256, 256, None))


def counted(ahead: int | None, tiling: AttentionTiling) -> Work:
    of = shape(256, 256, ahead)
    stmt = k.Attention(of, tiling, "q", "k", "v", "out", "tiles", Var("outer", 2), Var("head", 3), Var("query", 256),
                       Var("key", 256), "s", (k.Assign("s", k.Literal(1.0, DType.F32)),))
    buffers = tuple(k.Buffer(name, DType.BF16, 2 * 3 * 256 * 64, k.Mode.WRITE if name == "out" else k.Mode.READ)
                    for name in ("q", "k", "v", "out"))
    return count_work(k.Program(buffers, tiling.blocks(of), tiling.threads, (stmt,)))


def test_work_is_counted_of_the_tiles_that_are_taken() -> None:
    every, causal = counted(None, TILING), counted(0, TILING)
    assert causal.multiply_adds == every.multiply_adds * 2.5 / 4
    sharing = AttentionTiling(1, 4, 16, 32)
    assert counted(0, sharing).multiply_adds == counted(None, sharing).multiply_adds
