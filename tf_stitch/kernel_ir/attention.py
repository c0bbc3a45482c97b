"""Attention as one kernel: its sizes, where its operands lie, and how warps share the work. See emit/attention.cu."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.ir.causal_masks import CausalMask
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.symbolic_dims import ceil_div

WORD = 4
"""Bytes of a word: what a register, or a bank of shared memory, holds."""


@dataclass(frozen=True)
class Rows:
    """Where the matrices [rows, columns] of one operand lie: columns are neighbours, and between what follows are this
    many elements.

    Attributes:
        offset: of the first element.
        outer, head: from the matrix of one outer index, or head, to that of the next.
        row: from one row to the next.
    """

    outer: int
    head: int
    row: int
    offset: int = 0


@dataclass(frozen=True)
class AttentionShape:
    """softmax(score(q k^T)) v for `outer` x `heads` matrices q [queries, depth], k [keys, depth], v [keys, width].

    Attributes:
        dtype: of q, k, v and the result; matmuls of float32 are taken in TF32.
        causal: scores that are known. They are left out where softmax makes them 0; what their values are, numbers or
            not, is not seen then.
    """

    dtype: DType
    outer: int
    heads: int
    queries: int
    keys: int
    depth: int
    width: int
    q: Rows
    k: Rows
    v: Rows
    out: Rows
    causal: CausalMask | None = None


@dataclass(frozen=True)
class AttentionTiling:
    """Warps of a block, and keys that one of them takes at a time. A warp has 16 queries.

    Attributes:
        query_warps: warps with queries of their own.
        key_warps: warps that share the keys of the same queries.
        warp_keys: a multiple of 16.
        warp: threads of a warp.
    """

    query_warps: int
    key_warps: int
    warp_keys: int
    warp: int

    @property
    def text(self) -> str:
        return f"{self.query_warps}x{self.key_warps} warps of {self.warp_keys} keys"

    @property
    def threads(self) -> int:
        return self.warp * self.query_warps * self.key_warps

    @property
    def rows(self) -> int:
        """Queries of a block."""
        return 16 * self.query_warps

    @property
    def tile(self) -> int:
        """Keys in shared memory at a time."""
        return self.key_warps * self.warp_keys

    def parts(self, queries: int) -> int:
        """Blocks that share the queries of one matrix."""
        return ceil_div(queries, self.rows)

    def blocks(self, shape: AttentionShape) -> int:
        return shape.outer * shape.heads * self.parts(shape.queries)

    def skips(self, shape: AttentionShape) -> bool:
        """Whether blocks end with the last key that one of their queries sees: where warps share keys, most of these
        see none of a tile, and do not know of the others' scores."""
        return shape.causal is not None and self.key_warps == 1

    def tiles(self, shape: AttentionShape) -> float:
        """Tiles of keys that a block takes, on average."""
        tiles = ceil_div(shape.keys, self.tile)
        if shape.causal is None or not self.skips(shape):
            return tiles
        return tiles_of_queries(shape.causal, shape.queries, self.rows, tiles, self.tile)


def tiles_of_queries(causal: CausalMask, queries: int, rows: int, tiles: int, tile: int) -> float:
    """Up to the one with the last key that a block of `rows` queries sees, of `tiles` of this many keys: on average."""
    last = [min(first + rows, queries) + causal.ahead for first in range(0, queries, rows)]
    return sum(min(tiles, max(1, ceil_div(keys, tile))) for keys in last) / len(last)


@dataclass(frozen=True)
class SingleQueryTiling:
    """A block has one query (emit/attention_single.cu).

    Attributes:
        warps: of a block.
        lanes: threads that share a row, a power of two.
        steps: keys that such threads have under way.
        warp: threads of a warp.
    """

    warps: int
    lanes: int
    steps: int
    warp: int

    @property
    def threads(self) -> int:
        return self.warp * self.warps

    @property
    def text(self) -> str:
        return f"{self.groups} groups of {self.lanes} threads with {self.steps} keys"

    @property
    def rows(self) -> int:
        """Queries of a block."""
        return 1

    @property
    def groups(self) -> int:
        """Groups of threads that share a row."""
        return self.threads // self.lanes

    @property
    def tile(self) -> int:
        """Keys under way at a time."""
        return self.groups * self.steps

    def parts(self, queries: int) -> int:
        """Blocks that share the queries of one matrix."""
        return queries


@dataclass(frozen=True)
class SharedTiles:
    """Rows of k and v in shared memory, in words, such that a warp's accesses hit every bank once.

    Attributes:
        k_vector, v_vector: words of k, and of float32 v, that a thread reads at once.
        k_stride, v_stride: words from one row to the next.
    """

    k_vector: int
    v_vector: int
    k_stride: int
    v_stride: int


def shared_tiles(columns: tuple[int, int], dtype: DType) -> SharedTiles:
    """k is read by lanes (g, t) at word g * stride + t * vector: vectors of four want strides of 16 modulo 32, of two,
    8 modulo 16. v is read at 2 t * stride + g * vector, or by ldmatrix: 4 modulo 8.

    Args:
        columns: of k and v.
    """
    k_words, v_words = (n * dtype.size // WORD for n in columns)
    return SharedTiles(4 if k_words % 16 == 0 else 2, max(v for v in (1, 2, 4) if v_words % (8 * v) == 0),
                       k_words + 16 * (k_words % 32 == 0), v_words + 4)


def shared_words(keys: int, columns: tuple[int, int], dtype: DType, tiling: AttentionTiling | SingleQueryTiling) -> int:
    """Shared words of a block: a stage of k and v, two if there are more tiles; later the results of all warps, and two
    numbers of each row. For one query: the results of all groups."""
    if isinstance(tiling, SingleQueryTiling):
        return tiling.groups * (columns[1] + 2)
    tiles = shared_tiles(columns, dtype)
    stages = 2 if keys > tiling.tile else 1
    results = tiling.key_warps * tiling.rows * (columns[1] + 4 + 2)
    return max(stages * tiling.tile * (tiles.k_stride + tiles.v_stride), results)
