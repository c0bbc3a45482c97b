"""How much of an attention's gradient is left out, and what is counted of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_stitch.ir.causal_masks import CausalMask
from tf_stitch.ir.dtypes import DType
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.attention import Rows
from tf_stitch.kernel_ir.attention_gradient import GradientShape, GradientTiling, gradient_words
from tf_stitch.kernel_ir.count_work import count_work
from tf_stitch.kernel_ir.index import Var
from tf_stitch.kernel_ir.work import Work

ROWS = Rows(0, 0, 64)
ONE = k.Literal(1.0, DType.F32)


def shape(queries: int, keys: int, ahead: int | None, by_keys: bool) -> GradientShape:
    rows, columns = (keys, queries) if by_keys else (queries, keys)
    causal = None if ahead is None else CausalMask(ahead, -1e9)
    return GradientShape(DType.BF16, 2, 3, rows, columns, 64, 64, *[ROWS] * 5, ROWS if by_keys else None, causal)


@given(st.integers(1, 300), st.integers(1, 300), st.integers(-350, 350), st.sampled_from([32, 64]), st.booleans())
def test_tiles_hold_what_is_seen(queries: int, keys: int, ahead: int, tile: int, by_keys: bool) -> None:
    """And a tile at least."""
    of, tiling = shape(queries, keys, ahead, by_keys), GradientTiling(2, tile, False, 32)
    last = (of.columns - 1) // tile
    counts = []
    for first in range(0, of.rows, tiling.rows):
        own = range(first, min(first + tiling.rows, of.rows))
        seen = [column // tile for row in own for column in range(of.columns)
                if (row <= column + ahead if by_keys else column <= row + ahead)]
        counts.append(last - min(seen, default=last) + 1 if by_keys else max(seen, default=0) + 1)
    assert tiling.tiles(of) == pytest.approx(sum(counts) / len(counts))


def counted(of: GradientShape) -> Work:
    tiling = GradientTiling(4, 64, False, 32)
    at = (Var("outer", 2), Var("head", 3), Var("query", 256), Var("key", 256))
    names = ("own", "own_2", "other", "other_2", "result")
    given_ = (of, tiling, *names, "tiles", *at, "s", "g", (k.Assign("g", ONE),), "most", ())
    stmt = (k.AttentionKeyGradient(*given_, "result_2") if of.by_keys
            else k.AttentionQueryGradient(*given_, "sum", (k.Assign("g", ONE),)))
    buffers = tuple(k.Buffer(name, DType.BF16, 2 * 3 * 256 * 64, k.Mode.WRITE if "result" in name else k.Mode.READ)
                    for name in (*names, *(["result_2"] if of.by_keys else [])))
    array = k.Array("tiles", DType.F32, gradient_words(of, tiling), k.Space.SHARED)
    return count_work(k.Program(buffers, 6 * tiling.parts(of.rows), tiling.threads, (array, stmt)))


@pytest.mark.parametrize("by_keys", [False, True])
def test_work_is_counted_of_the_tiles_that_are_taken(by_keys: bool) -> None:
    of = shape(256, 256, 0, by_keys)
    every, causal = counted(replace(of, causal=None)), counted(of)
    assert causal.multiply_adds == every.multiply_adds * 2.5 / 4
