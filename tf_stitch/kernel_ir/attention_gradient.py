"""Gradients of an attention as kernels: their sizes, where operands lie. See emit/attention_gradient.cu."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.ir.causal_masks import CausalMask
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.kernel_ir.attention import WORD, Rows, tiles_of_queries


@dataclass(frozen=True)
class GradientShape:
    """Rows (queries, or keys) and columns (the others) of `outer` x `heads` matrices of scores.

    Attributes:
        dtype: of operands and results; matmuls of float32 are taken in TF32.
        depth: terms of a score; width: terms of the gradient of its weight.
        own, other: rows of `depth` elements; own_2, other_2: of `width`.
        result: rows like own's; result_2: rows like own_2's, where rows are keys.
        causal: elements that are 0 if the exponential of a score of `value` is, relative to their query's largest.
    """

    dtype: DType
    outer: int
    heads: int
    rows: int
    columns: int
    depth: int
    width: int
    own: Rows
    own_2: Rows
    other: Rows
    other_2: Rows
    result: Rows
    result_2: Rows | None = None
    causal: CausalMask | None = None

    @property
    def by_keys(self) -> bool:
        return self.result_2 is not None


@dataclass(frozen=True)
class GradientTiling:
    """Warps of a block, each with 16 rows, and the columns that they take at a time.

    Attributes:
        tile: a multiple of 16.
        held: warps hold their own rows in registers.
        warp: threads of a warp.
    """

    warps: int
    tile: int
    held: bool
    warp: int

    @property
    def threads(self) -> int:
        return self.warp * self.warps

    @property
    def rows(self) -> int:
        """The rows of a block."""
        return 16 * self.warps

    def parts(self, rows: int) -> int:
        """Blocks that share the rows of one matrix."""
        return ceil_div(rows, self.rows)

    def tiles(self, shape: GradientShape) -> float:
        """Tiles of columns that a block takes in a pass, on average."""
        tiles, causal = ceil_div(shape.columns, self.tile), shape.causal
        if causal is None:
            return tiles
        if not shape.by_keys:
            return tiles_of_queries(causal, shape.rows, self.rows, tiles, self.tile)
        first = [key - causal.ahead for key in range(0, shape.rows, self.rows)]
        return sum(tiles - min(tiles - 1, max(0, query // self.tile)) for query in first) / len(first)


def gradient_words(shape: GradientShape, tiling: GradientTiling) -> int:
    """Words of shared memory of a block: its own rows, and a tile of the others, two if there are more."""
    stages = 2 if shape.columns > tiling.tile else 1
    row = sum(n * shape.dtype.size // WORD + 4 for n in (shape.depth, shape.width))
    return (tiling.rows + stages * tiling.tile) * row


def float_vector(columns: int) -> int:
    """Words of float32 rows that a thread takes at once."""
    return max(v for v in (1, 2, 4) if columns % (8 * v) == 0)
