"""The statements of kernels for gradients of attention. Sizes and tilings are in attention_gradient.py, CUDA C++ in
emit/attention.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tf_stitch.kernel_ir.attention_gradient import GradientShape, GradientTiling, gradient_words
from tf_stitch.kernel_ir.head_rows import load_head, store_row
from tf_stitch.kernel_ir.index import Var
from tf_stitch.kernel_ir.scope import Scope, require
from tf_stitch.kernel_ir.statement import ArrayName, Body, Reads, Statement, Writes
from tf_stitch.kernel_ir.statements import WHOLE_BLOCK, WaitsAt
from tf_stitch.kernel_ir.tile_statement import Block, TileBlock, TileStatement, TileVerifier
from tf_stitch.kernel_ir.tile_work import TileWork


class _Operands(NamedTuple):
    own: NDArray[Any]
    own_2: NDArray[Any]
    other: NDArray[Any]
    other_2: NDArray[Any]

    def products(self, row: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """One of its own rows, by both matrices, times all others."""
        return self.other @ self.own[row], self.other_2 @ self.own_2[row]


@dataclass(frozen=True)
class _AttentionGradient(TileStatement):
    """All threads of the block together, each block its rows of one head: queries, or keys. See
    kernel_ir.attention_gradient.

    Attributes:
        own, other: buffers: matrices of `depth` columns, with rows of the blocks' own, and with the others.
        own_2, other_2: of `width` columns.
        result: d other, where d is what `body` makes of `gradient`.
        tiles: a shared array of `gradient_words` elements.
        outer, head, query, key: variables of bodies: where an element stands.
        score, gradient: scalars of bodies: the products of the query and the key, of own or other, and of own_2 or
            other_2. `body` makes of them the weight and the gradient of the score.
        most: a scalar that `find_most` sets to the largest score of a query, if shape.causal asks for it.
    """

    shape: GradientShape
    tiling: GradientTiling
    own: Reads
    own_2: Reads
    other: Reads
    other_2: Reads
    result: Writes
    tiles: ArrayName
    outer: Var
    head: Var
    query: Var
    key: Var
    score: str
    gradient: str
    body: Body
    most: str
    find_most: Body

    @property
    def position(self) -> tuple[Var, Var, Var, Var]:
        return self.outer, self.head, self.query, self.key

    def _verified(self, verifier: TileVerifier, scope: Scope) -> Scope:
        """The scope of what is done with an element."""
        require(verifier.threads == self.tiling.threads, f"attention by {verifier.threads} threads")
        words = gradient_words(self.shape, self.tiling)
        require(scope.arrays.get(self.tiles, 0) >= words, f"{self.tiles} cannot hold {words} words")
        if self.shape.causal is not None:
            of_query = scope.inner(self.position[:3])
            of_query.scalars[self.most] = True
            verifier.body(self.find_most, of_query, parted=True)
        inner = scope.inner(self.position)
        inner.scalars |= {self.score: True, self.gradient: True}
        return inner

    def _count_matmuls(self, work: TileWork, times: float, passes: int, products: int) -> float:
        """Counts what comes from and goes to memory, but for a second result, and matmuls.

        Args:
            passes: how often the others are multiplied with its own.
            products: columns of what is multiplied with what becomes of an element.

        Returns:
            Elements of a thread; those beyond the last column, too.
        """
        shape, tiling = self.shape, self.tiling
        tiles = tiling.tiles(shape)
        columns = min(shape.columns, tiles * tiling.tile)
        scores = times * tiling.rows * tiles * tiling.tile / tiling.threads
        reads = {self.own: tiling.rows * shape.depth, self.own_2: tiling.rows * shape.width,
                 self.other: passes * columns * shape.depth, self.other_2: passes * columns * shape.width}
        for name, elements in reads.items():
            work.vectors(name, times * elements, False)
        work.vectors(self.result, times * tiling.rows * shape.depth, True)
        multiplied = passes * (shape.depth + shape.width) + products
        work.work.multiply_adds += scores * multiplied * shape.dtype.size / 4
        return scores

    def _close(self, work: TileWork, times: float, passes: int) -> None:
        """Waits of a block's threads, for each tile of each pass."""
        work.waits(work.threads, passes * self.tiling.tiles(self.shape) * times)
        work.loading = 1.0
        work.close_round(times)

    def _loaded(self, block: TileBlock) -> tuple[tuple[int, int], range, _Operands]:
        """Outer index and head of a block, its rows, and the matrices of its head."""
        shape, rows = self.shape, self.tiling.rows
        matrix, part = divmod(block.block, self.tiling.parts(shape.rows))
        at = divmod(matrix, shape.heads)
        operands = _Operands(load_head(block, self.own, shape.own, at, shape.rows, shape.depth),
                             load_head(block, self.own_2, shape.own_2, at, shape.rows, shape.width),
                             load_head(block, self.other, shape.other, at, shape.columns, shape.depth),
                             load_head(block, self.other_2, shape.other_2, at, shape.columns, shape.width))
        return at, range(part * rows, min((part + 1) * rows, shape.rows)), operands

    def _elements(self, block: TileBlock, body: tuple[Statement, ...], positions: Sequence[tuple[int, ...]],
                  products: tuple[NDArray[Any], NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
        """What a body makes of the scores and gradients at these positions."""
        indices, scalars = block.indices[0], block.scalars[0]
        made = []
        for position, score, gradient in zip(positions, *products, strict=True):
            indices |= zip((x.name for x in self.position), position, strict=True)
            scalars |= {self.score: score, self.gradient: gradient}
            block.run_body(body, [0])
            made.append((scalars[self.score], scalars[self.gradient]))
        scores, gradients = zip(*made, strict=True)
        return np.asarray(scores), np.asarray(gradients)

    def _head_lines(self, block: Block, results: str, rows: str) -> Iterator[str]:
        shape, tiling = self.shape, self.tiling
        form = "x".join(map(str, (shape.rows, shape.columns, shape.depth, shape.width)))
        yield (f"{results} = attention gradient {form} by {rows} of {self.own}, {self.own_2}, {self.other}, "
               f"{self.other_2} by {tiling.warps} warps of {tiling.tile} columns, at "
               f"{', '.join(v.name for v in self.position)}:")
        if shape.causal is not None:
            yield (f"  0 of keys above their query + {shape.causal.ahead} if {shape.causal.value:g} is far below "
                   f"{self.most} of the query:")
            yield from block(self.find_most, "    ")


@dataclass(frozen=True)
class AttentionQueryGradient(_AttentionGradient):
    """Rows are queries, whose blocks take all keys twice.

    Attributes:
        row_sum: a scalar of `body` and `keep`: the sum over keys of what `summand` makes of `gradient`.
        keep: runs for each query.
    """

    row_sum: str
    summand: Body
    keep: Body = ()
    barrier: WaitsAt = WHOLE_BLOCK

    def verify(self, verifier: TileVerifier, scope: Scope) -> None:
        inner = self._verified(verifier, scope)
        verifier.body(self.summand, inner.inner(), parted=True)
        of_query = scope.inner(self.position[:3])
        of_query.scalars[self.row_sum] = inner.scalars[self.row_sum] = False
        verifier.body(self.keep, of_query, parted=True)
        verifier.body(self.body, inner, parted=True)

    def count(self, work: TileWork, times: float) -> None:
        rows = times * self.tiling.rows / self.tiling.threads
        scores = self._count_matmuls(work, times, 2, self.shape.depth)
        work.body(self.body, scores, None, None)
        work.body(self.find_most, rows, None, None)
        work.body(self.summand, scores, None, None)
        work.body(self.keep, rows, None, None)
        self._close(work, times, 2)

    def interpret(self, block: TileBlock) -> None:
        at, rows, loaded = self._loaded(block)
        for row in rows:
            positions = [(*at, row, column) for column in range(self.shape.columns)]
            products = loaded.products(row)
            block.scalars[0][self.row_sum] = self._elements(block, self.summand, positions, products)[1].sum()
            block.run_body(self.keep, [0])
            _, gradients = self._elements(block, self.body, positions, products)
            store_row(block, self.result, self.shape.result, (*at, row), gradients @ loaded.other)

    def lines(self, block: Block) -> Iterator[str]:
        yield from self._head_lines(block, self.result, "queries")
        yield f"  {self.row_sum} is the sum over keys of {self.gradient}:"
        yield from block(self.summand, "    ")
        if self.keep:
            yield f"  {self.row_sum} of each query:"
            yield from block(self.keep, "    ")
        yield f"  {self.gradient}:"
        yield from block(self.body, "    ")


@dataclass(frozen=True)
class AttentionKeyGradient(_AttentionGradient):
    """Rows are keys.

    Attributes:
        result_2: s other_2, where s is what `body` makes of `score`.
    """

    result_2: Writes
    barrier: WaitsAt = WHOLE_BLOCK

    def verify(self, verifier: TileVerifier, scope: Scope) -> None:
        verifier.body(self.body, self._verified(verifier, scope), parted=True)

    def count(self, work: TileWork, times: float) -> None:
        shape, tiling = self.shape, self.tiling
        scores = self._count_matmuls(work, times, 1, shape.depth + shape.width)
        work.vectors(self.result_2, times * tiling.rows * shape.width, True)
        work.body(self.body, scores, None, None)
        beyond = shape.columns - min(shape.columns, tiling.tiles(shape) * tiling.tile)  # queries that no tile has
        work.body(self.find_most, times * beyond / tiling.threads, None, None)
        self._close(work, times, 1)

    def interpret(self, block: TileBlock) -> None:
        assert self.shape.result_2 is not None
        at, rows, loaded = self._loaded(block)
        for row in rows:
            positions = [(*at, column, row) for column in range(self.shape.columns)]
            weights, gradients = self._elements(block, self.body, positions, loaded.products(row))
            store_row(block, self.result, self.shape.result, (*at, row), gradients @ loaded.other)
            store_row(block, self.result_2, self.shape.result_2, (*at, row), weights @ loaded.other_2)

    def lines(self, block: Block) -> Iterator[str]:
        yield from self._head_lines(block, f"{self.result}, {self.result_2}", "keys")
        yield f"  {self.score}, {self.gradient}:"
        yield from block(self.body, "    ")
