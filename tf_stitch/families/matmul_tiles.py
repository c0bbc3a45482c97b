"""Which tiles the blocks of a matmul have."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.families.warpgroup_tiles import WARPGROUP_TILES, by_warpgroups, warpgroup_tiling, warpgroup_us
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.kernel_ir.matmul import WORD, MatmulShape, MatmulTiling, shared_words
from tf_stitch.kernel_ir.work import SECTOR_BYTES


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


Tiles: TypeAlias = Mapping[tuple[int, int], Tile]
"""By rows and columns of a block's results."""

TILES: Tiles = {
    (128, 256): Tile(2, 4, 16, 0.95), (128, 128): Tile(2, 2, 16, 1.0), (128, 64): Tile(2, 2, 16, 1.15),
    (64, 128): Tile(2, 2, 16, 1.15), (64, 64): Tile(2, 2, 32, 1.35), (32, 64): Tile(1, 4, 32, 1.8)}
_WARP, _TWO_WARPS = Tile(1, 1, 16, parts=8), Tile(2, 1, 16, parts=4)
FEW_ROWS: Tiles = {
    (16, 64): _WARP, (16, 32): _WARP, (16, 16): _WARP, (32, 64): _WARP, (32, 32): _WARP, (32, 16): _WARP,
    (64, 64): _TWO_WARPS, (16, 48): _WARP, (16, 96): _WARP, (32, 48): _WARP, (64, 96): _TWO_WARPS}
"""Of matmuls with few results (see `leaves_idle`): each warp, or two of them, brings terms of its own from memory and
waits for no other, so that a block has most of what it reads under way at once. The last four are for three gates."""
MOST_ROWS, MOST_RESULTS = 128, 1 << 15
"""With as many rows a library's tiles leave processors of a GPU idle, unless columns are many; and with so few results,
of which two of its tiles of 128 x 128 have all."""
STAGES, COMPUTED_STAGES, MOST_STAGES = 4, 3, 8
"""Of operands in shared memory; where one is computed, which is under way in registers, too; and where warps have terms
of their own, if half of a processor's memory has room: the next launch's blocks bring theirs beside. A step of GPT-2's
decoder, 6 x 768, at batch 16 took 342 us on an H200 with 4, 297 with 6 or 8, and 300 with 4 of twice the warps; in
bfloat16 270, 244 and 248."""


def leaves_idle(matrices: int, rows: int, columns: int) -> bool:
    """Whether a library's tiles of matmuls with this many results leave most processors idle."""
    return rows <= MOST_ROWS or matrices * rows * columns <= MOST_RESULTS


def _few(shape: MatmulShape) -> Tiles:
    """Those of few rows, where there are few results."""
    return FEW_ROWS if leaves_idle(shape.matrices, shape.m, shape.n) else {}


def tiles_of(shape: MatmulShape, device: DeviceSpec) -> Sequence[tuple[int, int]]:
    """All that blocks may have: rows and columns."""
    few = _few(shape)
    if by_warpgroups(shape, device):
        return (*few, *(tile for tile in WARPGROUP_TILES if tile not in few))
    return tuple({**few, **TILES})


def tilings_of(shape: MatmulShape, device: DeviceSpec) -> list[MatmulTiling]:
    """That one first whose blocks keep processors busiest. None where no tile has the same columns of each gate."""
    few = [tile for tile in _few(shape) if tile[0] < max(2 * shape.m, 17) and (shape.gates == 3 or tile[1] % 3)]
    warpgroups = not few and by_warpgroups(shape, device)
    tiles = [tile for tile in few or tiles_of(shape, device) if suits(tile[1], shape)]
    found = [tiling_of(shape, tile, sharers, device) for tile in tiles for sharers in sharers_of(shape, tile, device)]
    found = [one for one in found if WORD * shared_words(shape, one) <= device.shared_bytes]
    cost = _few_us if few else warpgroup_us if warpgroups else _load
    return sorted(found, key=lambda tiling: cost(shape, tiling, device))


def suits(columns: int, shape: MatmulShape) -> bool:
    """Whether a tile of this many columns has whole vectors of each gate."""
    beside = 1 if shape.b.along_terms else shape.b.vector
    return shape.gates == 1 or columns % (shape.gates * math.lcm(shape.vector, beside)) == 0


def sharers_of(shape: MatmulShape, tile: tuple[int, int], device: DeviceSpec) -> Iterator[int]:
    """How many blocks may share the terms of a tile, so that each has a stage of them at least."""
    most = min(device.profile.matmul_kernels.most_sharers, device.largest_cluster,
               tiling_of(shape, tile, 1, device).steps(shape))
    in_parts = tile in _few(shape)
    return takewhile(lambda sharers: sharers == 1 or (in_parts and sharers <= most), (1, 2, 4, 8))


def tiling_of(shape: MatmulShape, tile: tuple[int, int], sharers: int, device: DeviceSpec) -> MatmulTiling:
    """The tiling of a tile whose terms this many blocks share."""
    few = _few(shape)
    if tile not in few and by_warpgroups(shape, device):
        return warpgroup_tiling(shape, tile, device)
    row_warps, column_warps, words, _, parts = {**TILES, **few}[tile]
    plain = shape.a.place is not None and shape.b.place is not None
    stages = STAGES if plain else COMPUTED_STAGES
    tiling = MatmulTiling(*tile, words, row_warps, column_warps, stages, device.warp, parts, sharers)
    if parts == 1:
        return tiling
    most = max(stages, min(MOST_STAGES, tiling.steps(shape) + 1)) if plain else stages
    for count in range(most, 1, -1):
        one = replace(tiling, stages=count)
        room = device.shared_bytes // 2 if count > stages else device.shared_bytes
        if WORD * shared_words(shape, one) <= room:
            return one
    return tiling


def _load(shape: MatmulShape, tiling: MatmulTiling, device: DeviceSpec) -> float:
    """What the busiest processor has to do, relative to a result of the largest tile."""
    cost = TILES[tiling.rows, tiling.columns].cost
    return ceil_div(tiling.blocks(shape), device.processors) * tiling.rows * tiling.columns * cost


def _few_us(shape: MatmulShape, tiling: MatmulTiling, device: DeviceSpec) -> float:
    """How long the busiest processor reads: of a row of each gate a sector at least."""
    columns = tiling.columns if shape.gates == 1 or shape.b.along_terms else \
        shape.gates * max(tiling.columns // shape.gates, SECTOR_BYTES // shape.dtype.size)
    nbytes = (tiling.rows + columns) * shape.k * shape.dtype.size / tiling.sharers
    share = ceil_div(tiling.blocks(shape), device.processors)
    matmuls, kernels = device.profile.matmul_kernels, device.profile.kernels
    read = nbytes / matmuls.few_rows_gbps * 1e-3
    return share * (read + matmuls.few_rows_block_us) + (tiling.sharers > 1) * kernels.cluster_us
