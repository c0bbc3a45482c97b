"""A matmul by tensor cores as part of a kernel: its sizes, how operands come to shared memory, and how warps share the
work. See emit/matmul.cu."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tf_stitch.device.kernel_numbers import MatmulNumbers
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.symbolic_dims import ceil_div

WORD = 4
"""Bytes of a word: what a register, or a bank of shared memory, holds."""
STEP = 8
"""Words of a row of an operand that one instruction takes: 8 terms in TF32, 16 of a half type."""
GROUP_ROWS, GROUP_TERMS, WARPGROUP = 64, 64, 4
"""Rows of a tile that a warpgroup has by itself; terms of a stage, which make lines of 128 bytes in shared memory whose
parts are exchanged; and a warpgroup's warps. See emit/matmul_warpgroups.cu."""
LINE_BYTES, LINES_TOGETHER = 128, 8
"""Of those lines, and how many are a pattern of exchanges: a tile begins at a multiple of their bytes."""
MAP_BYTES, BARRIER_BYTES = 128, 8
"""Of the description of a tensor in memory, from which boxes of it are copied, and of a barrier that counts bytes."""
BLOCK_MAPS = 2 * MAP_BYTES // WORD
"""Words of memory in which a block describes both operands."""
TURNS = 2
"""Warpgroups of a block of a pair, which have its tiles in turns."""
RESULT_PAD = 8
"""Floats behind each row of results in shared memory: a warp's writes hit every bank once."""


@dataclass(frozen=True)
class Place:
    """Where the matrices of an operand lie, whose lines have no gaps: elements from the start of its buffer to the
    first, from one matrix to the next, from one line to the next."""

    offset: int
    matrix: int
    line: int


@dataclass(frozen=True)
class MatmulOperand:
    """How one operand comes to shared memory.

    Attributes:
        along_terms: a line, which is read along and lies so in shared memory, too, has the terms of one row (of b: one
            column); else a term of all rows.
        vector: elements of a line that a thread brings at a time; they divide the line.
        place: where it lies, to be copied asynchronously in vectors of 16 bytes; None: a body computes it.
    """

    along_terms: bool
    vector: int
    place: Place | None = None


@dataclass(frozen=True)
class MatmulShape:
    """`matrices` matmuls a [m, k] x b [k, n], operands of `dtype` (float32 in TF32), added up in float32.

    Attributes:
        vector: neighbouring columns of a result that a thread finishes at a time; they divide n / gates.
        gates: equal parts of the columns, of which a block has the same columns, and a thread finishes the same ones
            together: those of a recurrent cell. They divide n, and the columns of a tile.
    """

    dtype: DType
    matrices: int
    m: int
    n: int
    k: int
    a: MatmulOperand
    b: MatmulOperand
    vector: int
    gates: int = 1

    @property
    def gate_columns(self) -> int:
        """Columns of one gate."""
        return self.n // self.gates

    @property
    def finished(self) -> int:
        """Results that a thread finishes at a time: a vector of each gate, one gate after the other."""
        return self.vector * self.gates


@dataclass(frozen=True)
class MatmulTiling:
    """The part of a result that a block has.

    Attributes:
        rows, columns: of the result.
        words: of each row of operands that are in shared memory at a time; a multiple of STEP.
        row_warps, column_warps: warps that share the rows, and the columns.
        stages: of operands in shared memory; all but one may be under way.
        warp: threads of a warp.
        parts: groups of such warps that share the terms; each has stages of its own.
        sharers: blocks of a cluster that share the terms of one tile, and then its results.
        warpgroups: four warps at a time multiply (wgmma), of half types, from lines without pads: `row_warps` are
            warpgroups' of 64 rows each, which have all columns.
        pair: the operand, "a" or "b", of which two blocks of a cluster bring one half each for both: they have tiles
            beside each other, one warp more that copies, and one pair of tiles after the other. "": a block has one.
        most_blocks: of a launch of pairs; even.
    """

    rows: int
    columns: int
    words: int
    row_warps: int
    column_warps: int
    stages: int
    warp: int
    parts: int = 1
    sharers: int = 1
    warpgroups: bool = False
    pair: str = ""
    most_blocks: int = 0

    @property
    def threads(self) -> int:
        return (self.parts * self.row_warps * self.column_warps + bool(self.pair)) * self.warp

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return 2 if self.pair else self.sharers

    def tiles(self, shape: MatmulShape) -> tuple[int, int]:
        """Blocks that share the rows, and the columns, of one matrix."""
        return ceil_div(shape.m, self.rows), ceil_div(shape.gate_columns, self.columns // shape.gates)

    def blocks(self, shape: MatmulShape) -> int:
        down, across = self.tiles(shape)
        if self.pair:
            return min(2 * pairs(shape, self), self.most_blocks)
        return shape.matrices * down * across * self.sharers

    def turns(self, shape: MatmulShape) -> int:
        """Tiles that a block has one after the other, at most."""
        return ceil_div(2 * pairs(shape, self), self.blocks(shape)) if self.pair else 1

    def steps(self, shape: MatmulShape) -> int:
        """Stages of operands that a part goes through."""
        return ceil_div(shape.k, self.sharers * self.parts * self.words * WORD // shape.dtype.size)


TOGETHER = 8
"""Rows of tiles whose columns are gone through together: blocks that run at one time share operands."""


def pair_turn_us(shape: MatmulShape, tiling: MatmulTiling, matmuls: MatmulNumbers) -> float:
    """Until the terms of one tile of a block of a pair are added up: multiplied, or copied if that takes longer."""
    multiplied = tiling.rows * tiling.columns / matmuls.warpgroup_rate
    halves = {"a": tiling.rows / 2 + tiling.columns, "b": tiling.rows + tiling.columns / 2}
    copied = halves[tiling.pair] * shape.dtype.size / matmuls.pair_gbps
    return tiling.steps(shape) * GROUP_TERMS * max(multiplied, copied) * 1e-3


def pairs(shape: MatmulShape, tiling: MatmulTiling) -> int:
    """Pairs of tiles beside each other."""
    down, across = _pairs(shape, tiling)
    return shape.matrices * down * across


def _pairs(shape: MatmulShape, tiling: MatmulTiling) -> tuple[int, int]:
    down, across = tiling.tiles(shape)
    return (down, ceil_div(across, 2)) if tiling.pair == "a" else (ceil_div(down, 2), across)


def tiles_of(block: int, shape: MatmulShape, tiling: MatmulTiling) -> Iterator[tuple[int, range, range]]:
    """For each tile of a block its matrix and rows, and its columns of each gate. Ranges may be empty."""
    if not tiling.pair:
        matrix, row, column = _strips(block // tiling.sharers, *tiling.tiles(shape))
        yield _ranges(matrix, row, column, shape, tiling)
        return
    for pair in range(block // 2, pairs(shape, tiling), tiling.blocks(shape) // 2):
        matrix, row, column = _strips(pair, *_pairs(shape, tiling))
        along = (row, 2 * column + block % 2) if tiling.pair == "a" else (2 * row + block % 2, column)
        yield _ranges(matrix, *along, shape, tiling)


def _strips(number: int, down: int, across: int) -> tuple[int, int, int]:
    """Matrix, row and column of what is gone through TOGETHER rows at a time."""
    matrix, tile = divmod(number, down * across)
    strip, tile = divmod(tile, TOGETHER * across)
    column, row = divmod(tile, min(down - strip * TOGETHER, TOGETHER))
    return matrix, strip * TOGETHER + row, column


def _ranges(matrix: int, row: int, column: int, shape: MatmulShape, tiling: MatmulTiling) -> tuple[int, range, range]:
    across = tiling.columns // shape.gates
    row, column = row * tiling.rows, column * across
    last = min(column + across, shape.gate_columns)
    return matrix, range(row, min(row + tiling.rows, shape.m)), range(column, last)


def line_words(extent: int, along_terms: bool, dtype: DType, tiling: MatmulTiling) -> int:
    """Words from one line of a tile in shared memory to the next, such that the accesses of a warp hit every bank once.

    Lines along terms are read at 4-word groups 0..7 x stride (ldmatrix), or at g * stride + t: 4 modulo 8, and 4 modulo
    32. Lines of one term are read by ldmatrix likewise, or at t * stride + g: 8 or 24 modulo 32.

    Args:
        extent: rows of a tile of a, columns of one of b.
    """
    if tiling.warpgroups:
        return LINE_BYTES // WORD
    if along_terms:
        return tiling.words + 4
    words = extent * dtype.size // WORD
    return words + (8 if dtype is DType.F32 else 4)


def tile_words(extent: int, along_terms: bool, dtype: DType, tiling: MatmulTiling) -> int:
    """Words of one stage of one operand in shared memory."""
    if tiling.warpgroups:
        return extent * tiling.words
    lines = extent if along_terms else tiling.words * WORD // dtype.size
    return lines * line_words(extent, along_terms, dtype, tiling)


def finished_by_each(shape: MatmulShape, tiling: MatmulTiling) -> int:
    """How often threads of each block of a cluster finish results of a tile; the last block may have fewer."""
    return ceil_div(tiling.rows * tiling.columns // shape.finished, tiling.sharers)


def shared_words(shape: MatmulShape, tiling: MatmulTiling) -> int:
    """A block's shared words: the stages of both operands of each part, later its results; what a cluster's blocks
    send; and where warpgroups multiply, room for the template to begin at a multiple of LINES_TOGETHER lines. Pairs
    have no results there, but two barriers of each stage and the descriptions of both operands."""
    stage = sum(tile_words(extent, operand.along_terms, shape.dtype, tiling)
                for extent, operand in ((tiling.rows, shape.a), (tiling.columns, shape.b)))
    slots = min(tiling.stages, tiling.steps(shape))
    sent = tiling.sharers * finished_by_each(shape, tiling) * shape.finished if tiling.sharers > 1 else 0
    aligned = LINES_TOGETHER * LINE_BYTES // WORD if tiling.warpgroups else 0
    if tiling.pair:
        barriers = ceil_div((2 * tiling.stages + 1) * BARRIER_BYTES, MAP_BYTES) * MAP_BYTES
        return tiling.stages * stage + (barriers + 2 * MAP_BYTES) // WORD + aligned
    return tiling.parts * max(slots * stage, tiling.rows * (tiling.columns + RESULT_PAD)) + sent + aligned
