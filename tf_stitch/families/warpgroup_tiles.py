"""Which tiles the blocks of a matmul have where warpgroups multiply (wgmma): half types on a device that can."""

from __future__ import annotations

from dataclasses import replace

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.kernel_ir.matmul import (
    GROUP_ROWS,
    GROUP_TERMS,
    LINE_BYTES,
    LINES_TOGETHER,
    TURNS,
    WARPGROUP,
    WORD,
    MatmulShape,
    MatmulTiling,
    pair_turn_us,
    shared_words,
)
from tf_stitch.kernel_ir.occupancy import MATMUL_REGISTERS, blocks_that_fit

WARPGROUP_TILES = ((64, 64), (128, 64), (64, 128), (128, 128), (192, 128), (256, 128))
"""Rows and columns. Of a wider tile whose columns lie by terms a thread would compute too many addresses:
128 x 192 took 42 us for [2048,1024] x [1024,2816] on an H200, 192 x 128 34."""
PAIRED = ((128, 128), (128, 64), (64, 128))
"""Those that two blocks of a cluster have beside each other, if both operands lie in memory."""
STAGES, FEWER_STAGES, MOST_STAGES = 4, 3, 6
"""Of operands in shared memory; with the second a processor has two blocks of 128 x 128; pairs have what fits."""
WIDEST = 8
"""Columns that a thread of a pair may finish at a time: those of four threads that have two each."""


def by_warpgroups(shape: MatmulShape, device: DeviceSpec) -> bool:
    """Whether warpgroups multiply, where results are not few."""
    return device.warpgroup_matmuls and shape.dtype is not DType.F32


def warpgroup_tiling(shape: MatmulShape, tile: tuple[int, int], device: DeviceSpec) -> MatmulTiling:
    """The tiling of a tile, in pairs if possible."""
    rows, columns = tile
    stages = STAGES if rows + columns > STAGES * GROUP_ROWS else FEWER_STAGES
    alone = MatmulTiling(rows, columns, LINE_BYTES // WORD, WARPGROUP * rows // GROUP_ROWS, 1, stages, device.warp,
                         warpgroups=True)
    pair = _pair(shape, tile) if device.largest_cluster > 1 else ""
    if not pair:
        return alone
    paired = replace(alone, row_warps=TURNS * WARPGROUP, pair=pair, most_blocks=device.processors // 2 * 2)
    fit = (one for stages in range(MOST_STAGES, FEWER_STAGES - 1, -1)
           if WORD * shared_words(shape, one := replace(paired, stages=stages)) <= device.shared_bytes)
    return next(fit, alone)


def _pair(shape: MatmulShape, tile: tuple[int, int]) -> str:
    """The operand that two blocks share, the larger part of a stage if half of it is a whole number of boxes."""
    plain = shape.a.place is not None and shape.b.place is not None
    if tile not in PAIRED or not plain or shape.gates > 1 or shape.vector > WIDEST:
        return ""
    sides = sorted((("a", tile[0], shape.a), ("b", tile[1], shape.b)), key=lambda side: -side[1])
    return next((name for name, extent, operand in sides
                 if extent // 2 % (LINES_TOGETHER if operand.along_terms else GROUP_TERMS) == 0), "")


def warpgroup_us(shape: MatmulShape, tiling: MatmulTiling, device: DeviceSpec) -> float:
    """How long the busiest processor takes, if what results are finished with is as much as they are."""
    size, matmuls = shape.dtype.size, device.profile.matmul_kernels
    results = tiling.rows * tiling.columns * 2 * size
    if tiling.pair:
        turn, finish = pair_turn_us(shape, tiling, matmuls), results / matmuls.pair_gbps * 1e-3
        return matmuls.pair_start_us + turn + (tiling.turns(shape) - 1) * max(turn, finish) + finish
    multiplied = tiling.rows * tiling.columns * GROUP_TERMS / matmuls.warpgroup_rate
    read = (tiling.rows + tiling.columns) * LINE_BYTES / matmuls.warpgroup_gbps
    share = ceil_div(tiling.blocks(shape), device.processors)
    fit = blocks_that_fit(tiling.threads, MATMUL_REGISTERS + tiling.columns // 2, WORD * shared_words(shape, tiling),
                          device)
    block = tiling.steps(shape) * max(read, multiplied) + results / matmuls.warpgroup_gbps
    return share * block * 1e-3 + ceil_div(share, fit) * matmuls.round_us
