"""Which tiles the blocks of a matmul have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.kernel_ir.cost import CLUSTER_US
from tf_stitch.kernel_ir.matmul import WORD, MatmulShape, MatmulTiling, shared_words


class Tile(NamedTuple):
    """How a block computes its results.

    Attributes:
        row_warps, column_warps: warps that share the rows, and the columns.
        words: of each row of operands in a stage, more where warps have little to do before they wait for each other.
        cost: what a result costs relative to others: smaller tiles read operands more often. Assumed.
        parts: groups of such warps that share the terms.
    """

    row_warps: int
    column_warps: int
    words: int
    cost: float = 1.0
    parts: int = 1


TILES = {(128, 256): Tile(2, 4, 16, 0.95), (128, 128): Tile(2, 2, 16, 1.0), (128, 64): Tile(2, 2, 16, 1.15),
         (64, 128): Tile(2, 2, 16, 1.15), (64, 64): Tile(2, 2, 32, 1.35), (32, 64): Tile(1, 4, 32, 1.8),
         (16, 64): Tile(1, 1, 16, parts=8), (16, 32): Tile(1, 1, 16, parts=8), (16, 16): Tile(1, 1, 16, parts=8)}
"""By rows and columns of a block's results. Those of 16 rows are for matmuls that have no more: each warp brings terms
of its own from memory and waits for no other, so that a block has most of what it reads under way at once."""
STAGES, COMPUTED_STAGES, MOST_STAGES = 4, 3, 8
"""Of operands in shared memory; where one is computed, which is under way in registers, too; and where warps have terms
of their own, if half of a processor's memory has room: the next launch's blocks bring theirs beside. A step of GPT-2's
decoder, 6 x 768, at batch 16 took 342 us on an H200 with 4, 297 with 6 or 8, and 300 with 4 of twice the warps; in
bfloat16 270, 244 and 248."""
MOST_SHARERS = 4
"""Blocks of a cluster that share the terms of a tile. The same step took 277 us with one, 222 with 2, 196 with 4, 200
with 8, which find place on fewer processors; in bfloat16 240, 181, 165, 167 (with one: a launch for each matmul)."""
PROCESSOR_GBPS = 40.0
"""What a processor gets from the last cache: 36 to 40 in that decoder's matmuls, whose blocks had one each."""
BLOCK_US = 1.0
"""Of each block that a processor has, besides what it reads. Assumed."""


def tilings_of(shape: MatmulShape, device: DeviceSpec) -> list[MatmulTiling]:
    """That one first whose blocks keep processors busiest."""
    few = [tile for tile in TILES if TILES[tile].parts > 1 and shape.m <= tile[0]]
    tiles = few or [tile for tile in TILES if TILES[tile].parts == 1]
    found = [tiling_of(shape, tile, sharers, device) for tile in tiles for sharers in sharers_of(shape, tile, device)]
    return sorted(found, key=lambda tiling: (_few_us if few else _load)(shape, tiling, device))


def sharers_of(shape: MatmulShape, tile: tuple[int, int], device: DeviceSpec) -> Iterator[int]:
    """How many blocks may share the terms of a tile, so that each has a stage of them at least."""
    most = min(MOST_SHARERS, device.largest_cluster, tiling_of(shape, tile, 1, device).steps(shape))
    return takewhile(lambda sharers: sharers == 1 or (TILES[tile].parts > 1 and sharers <= most), (1, 2, 4, 8))


def tiling_of(shape: MatmulShape, tile: tuple[int, int], sharers: int, device: DeviceSpec) -> MatmulTiling:
    """That of a tile whose terms so many blocks share."""
    row_warps, column_warps, words, _, parts = TILES[tile]
    plain = shape.a.place is not None and shape.b.place is not None
    stages = STAGES if plain else COMPUTED_STAGES
    tiling = MatmulTiling(*tile, words, row_warps, column_warps, stages, device.warp, parts, sharers)
    if parts == 1 or not plain:
        return tiling
    most = range(min(MOST_STAGES, tiling.steps(shape) + 1), stages, -1)
    more = (replace(tiling, stages=count) for count in most)
    return next((one for one in more if WORD * shared_words(shape, one) <= device.shared_bytes // 2), tiling)


def _load(shape: MatmulShape, tiling: MatmulTiling, device: DeviceSpec) -> float:
    """What the busiest processor has to do, relative to a result of the largest tile."""
    cost = TILES[tiling.rows, tiling.columns].cost
    return ceil_div(tiling.blocks(shape), device.processors) * tiling.rows * tiling.columns * cost


def _few_us(shape: MatmulShape, tiling: MatmulTiling, device: DeviceSpec) -> float:
    """How long the busiest processor reads."""
    nbytes = (tiling.rows + tiling.columns) * shape.k * shape.dtype.size / tiling.sharers
    share = ceil_div(tiling.blocks(shape), device.processors)
    return share * (nbytes / PROCESSOR_GBPS * 1e-3 + BLOCK_US) + (tiling.sharers > 1) * CLUSTER_US
