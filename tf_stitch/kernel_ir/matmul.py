"""A matmul by tensor cores as part of a kernel: its sizes, how operands come to shared memory, and how warps share the
work. See emit/matmul.cu."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.symbolic_dims import ceil_div

WORD = 4
"""Bytes of a word: what a register, or a bank of shared memory, holds."""
STEP = 8
"""Words of a row of an operand that one instruction takes: 8 terms in TF32, 16 of a half type."""
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

    @property
    def threads(self) -> int:
        return self.parts * self.row_warps * self.column_warps * self.warp

    def tiles(self, shape: MatmulShape) -> tuple[int, int]:
        """Blocks that share the rows, and the columns, of one matrix."""
        return ceil_div(shape.m, self.rows), ceil_div(shape.gate_columns, self.columns // shape.gates)

    def blocks(self, shape: MatmulShape) -> int:
        down, across = self.tiles(shape)
        return shape.matrices * down * across * self.sharers

    def steps(self, shape: MatmulShape) -> int:
        """Stages of operands that a part goes through."""
        return ceil_div(shape.k, self.sharers * self.parts * self.words * WORD // shape.dtype.size)


TOGETHER = 8
"""Rows of tiles whose columns are gone through together: blocks that run at one time share operands."""


def tile_of(block: int, shape: MatmulShape, tiling: MatmulTiling) -> tuple[int, range, range]:
    """The matrix and rows of a block, and its columns of each gate."""
    down, across = tiling.tiles(shape)
    matrix, tile = divmod(block // tiling.sharers, down * across)
    strip, tile = divmod(tile, TOGETHER * across)
    column, row = divmod(tile, min(down - strip * TOGETHER, TOGETHER))
    across = tiling.columns // shape.gates
    row, column = (strip * TOGETHER + row) * tiling.rows, column * across
    last = min(column + across, shape.gate_columns)
    return matrix, range(row, min(row + tiling.rows, shape.m)), range(column, last)


def line_words(extent: int, along_terms: bool, dtype: DType, tiling: MatmulTiling) -> int:
    """Words from one line of a tile in shared memory to the next, such that the accesses of a warp hit every bank once.

    Lines along terms are read at 4-word groups 0..7 x stride (ldmatrix), or at g * stride + t: 4 modulo 8, and 4 modulo
    32. Lines of one term are read by ldmatrix likewise, or at t * stride + g: 8 or 24 modulo 32.

    Args:
        extent: rows of a tile of a, columns of one of b.
    """
    if along_terms:
        return tiling.words + 4
    words = extent * dtype.size // WORD
    return words + (8 if dtype is DType.F32 else 4)


def tile_words(extent: int, along_terms: bool, dtype: DType, tiling: MatmulTiling) -> int:
    """Words of one stage of one operand in shared memory."""
    lines = extent if along_terms else tiling.words * WORD // dtype.size
    return lines * line_words(extent, along_terms, dtype, tiling)


def finished_by_each(shape: MatmulShape, tiling: MatmulTiling) -> int:
    """How often threads of each block of a cluster finish results of a tile; the last block may have fewer."""
    return ceil_div(tiling.rows * tiling.columns // shape.finished, tiling.sharers)


def shared_words(shape: MatmulShape, tiling: MatmulTiling) -> int:
    """Of a block: of each part its stages of both operands, later its results; and what a cluster's blocks send."""
    stage = sum(tile_words(extent, operand.along_terms, shape.dtype, tiling)
                for extent, operand in ((tiling.rows, shape.a), (tiling.columns, shape.b)))
    slots = min(tiling.stages, tiling.steps(shape))
    sent = tiling.sharers * finished_by_each(shape, tiling) * shape.finished if tiling.sharers > 1 else 0
    return tiling.parts * max(slots * stage, tiling.rows * (tiling.columns + RESULT_PAD)) + sent
