"""Tiles of matmuls: many results keep processors busy; few rows are a matter of what a processor reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tf_stitch.device.spec import H200
from tf_stitch.families.matmul_tiles import FEW_ROWS, MOST_ROWS, sharers_of, suits, tiling_of, tilings_of
from tf_stitch.families.warpgroup_tiles import PAIRED
from tf_stitch.ir.dtypes import DType
from tf_stitch.kernel_ir.matmul import MatmulOperand, MatmulShape, Place, shared_words, tiles_of

F32, BF16 = DType.F32, DType.BF16


def shape(m: int, k: int, n: int, dtype: DType = F32) -> MatmulShape:
    """A [m, k] x [k, n] whose operands lie in memory."""
    vector = 16 // dtype.size
    return MatmulShape(dtype, 1, m, n, k, MatmulOperand(True, vector, Place(0, 0, k)),
                       MatmulOperand(False, vector, Place(0, 0, n)), 4)


@pytest.mark.parametrize("m", [1, 16])
@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize(("k", "n"), [(768, 768), (768, 3072), (3072, 768), (1024, 4096), (4096, 1024), (512, 50264)])
def test_few_rows_are_read_by_most_processors(m: int, dtype: DType, k: int, n: int) -> None:
    """Whatever the sizes: a processor has no more than twice its share of the second matrix to read."""
    first = tilings_of(shape(m, k, n, dtype), H200)[0]
    blocks = first.blocks(shape(m, k, n, dtype))
    each = -(-blocks // H200.processors) * first.columns * k / first.sharers
    assert each <= 2 * k * n / H200.processors
    assert first.parts > 1


def test_long_sums_are_shared_by_a_cluster() -> None:
    assert tilings_of(shape(16, 3072, 768), H200)[0].sharers == H200.profile.matmul_kernels.most_sharers
    assert {t.sharers for t in tilings_of(shape(16, 3072, 768), replace(H200, largest_cluster=1))} == {1}


def test_every_block_has_a_stage() -> None:
    for terms in (8, 128, 136, 264, 520, 3072):
        for tile in FEW_ROWS:
            own = shape(16, terms, 64)
            for sharers in sharers_of(own, tile, H200):
                tiling = tiling_of(own, tile, sharers, H200)
                assert (sharers - 1) * tiling.words * tiling.parts < terms


def test_more_rows_have_no_parts() -> None:
    assert {t.parts for t in tilings_of(shape(MOST_ROWS + 1, 768, 768), H200)} == {1}
    assert tilings_of(shape(4096, 768, 3072), H200)[0].rows >= 64
    few, many = shape(256, 72, 128), replace(shape(256, 72, 128), matrices=2)
    assert ({t.parts > 1 for t in tilings_of(few, H200)}, {t.parts > 1 for t in tilings_of(many, H200)}) == (
        {True}, {False}), "a library would have two tiles for all results of the first"


def test_a_block_leaves_room_for_one_of_the_next_launch() -> None:
    """Where it can: with the fewest stages it may have more than half of a processor's memory."""
    own = shape(16, 3072, 768)
    for tiling in tilings_of(own, H200):
        fewest = 4 * shared_words(own, replace(tiling, stages=4))
        assert 4 * shared_words(own, tiling) <= max(H200.shared_bytes // 2, fewest)


@pytest.mark.parametrize(("m", "rows"), [(1, 16), (16, 16), (17, 32), (40, 64), (128, 64)])
def test_tiles_of_few_rows_have_no_more_than_twice_as_many(m: int, rows: int) -> None:
    assert max(t.rows for t in tilings_of(shape(m, 512, 2048), H200)) == rows


@pytest.mark.parametrize("gates", [2, 3, 4])
@pytest.mark.parametrize("m", [16, 32, 64, 128, 256])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_tiles_have_vectors_of_each_gate(gates: int, m: int, dtype: DType) -> None:
    own = replace(shape(m, 512, gates * 512, dtype), gates=gates)
    found = tilings_of(own, H200)
    assert found or m > MOST_ROWS
    for tiling in found:
        assert tiling.columns % gates == 0 == tiling.columns // gates % own.b.vector
        assert suits(tiling.columns, own)
        assert 4 * shared_words(own, tiling) <= H200.shared_bytes


def test_a_recurrent_layer_s_processors_read_little() -> None:
    """32 rows of 512, four gates: 48 KiB each, and a gate's columns in whole sectors."""
    own = replace(shape(32, 512, 2048), gates=4)
    first = tilings_of(own, H200)[0]
    assert first.blocks(own) <= H200.processors
    assert 4 * (first.rows + first.columns) * own.k // first.sharers <= 48 << 10
    assert first.columns // 4 * 4 >= 32


def test_pairs_need_clusters_and_operands_in_memory() -> None:
    """Else a block alone has the tile, and of float32 no warpgroup."""
    own = shape(4096, 768, 3072, BF16)
    computed = replace(own, a=MatmulOperand(True, 8))
    alone = replace(H200, largest_cluster=1)
    found = [tiling_of(one, (128, 128), 1, device) for one, device in ((own, H200), (own, alone), (computed, H200))]
    assert [(one.pair, one.warpgroups, one.cluster) for one in found] == [("a", True, 2), ("", True, 1), ("", True, 1)]
    assert not tiling_of(shape(4096, 768, 3072), (128, 128), 1, H200).warpgroups
    assert not tiling_of(own, (128, 128), 1, replace(H200, warpgroup_matmuls=False)).warpgroups


@pytest.mark.parametrize(("m", "n"), [(264, 384), (2056, 1160), (4096, 3072)])
@pytest.mark.parametrize("tile", PAIRED, ids=str)
def test_blocks_of_pairs_have_every_result_once(m: int, n: int, tile: tuple[int, int]) -> None:
    own = shape(m, 768, n, BF16)
    tiling = tiling_of(own, tile, 1, H200)
    found = [one for block in range(tiling.blocks(own)) for one in tiles_of(block, own, tiling)]
    assert max(sum(1 for _ in tiles_of(block, own, tiling)) for block in range(2)) == tiling.turns(own)
    covered = np.zeros((m, n), int)
    for matrix, rows, columns in found:
        covered[rows.start:rows.stop, columns.start:columns.stop] += 1
        assert matrix == 0
    assert (covered == 1).all()
