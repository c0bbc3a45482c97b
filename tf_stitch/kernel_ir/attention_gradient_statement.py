"""The statements of kernels for gradients of attention. Sizes and tilings are in attention_gradient.py, CUDA C++ in
emit/attention.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tf_stitch.kernel_ir.attention_gradient import GradientShape, GradientTiling, gradient_words
from tf_stitch.kernel_ir.index import Var
from tf_stitch.kernel_ir.interpreted_elements import elementwise, load_head, store_row
from tf_stitch.kernel_ir.scope import Scope, require
from tf_stitch.kernel_ir.statement import ArrayName, Body, Reads, Writes
from tf_stitch.kernel_ir.statements import WHOLE_BLOCK, WaitsAt
from tf_stitch.kernel_ir.tile_statement import Block, TileBlock, TileStatement, TileVerifier
from tf_stitch.kernel_ir.tile_work import TileWork


@dataclass(frozen=True)
class _Loaded:
    """What a block of the interpreter works on.

    Attributes:
        at: outer index and head.
        rows: those of the block.
        products: [rows, columns], of own and other, and of own_2 and other_2.
        other, other_2: [columns, ...].
    """

    at: tuple[int, int]
    rows: range
    products: tuple[NDArray[Any], NDArray[Any]]
    other: NDArray[Any]
    other_2: NDArray[Any]


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

    def _count_matmuls(self, counter: TileWork, times: float, passes: int, products: int) -> float:
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
            counter.vectors(name, times * elements, False)
        counter.vectors(self.result, times * tiling.rows * shape.depth, True)
        multiplied = passes * (shape.depth + shape.width) + products
        counter.work.multiply_adds += scores * multiplied * shape.dtype.size / 4
        return scores

    def _close(self, counter: TileWork, times: float, passes: int) -> None:
        """Waits of a block's threads, for each tile of each pass."""
        counter.waits(counter.threads, passes * self.tiling.tiles(self.shape) * times)
        counter.close_round(times, 1.0)

    def _loaded(self, block: TileBlock) -> _Loaded:
        shape, count = self.shape, self.tiling.rows
        matrix, part = divmod(block.block, self.tiling.parts(shape.rows))
        at = divmod(matrix, shape.heads)
        own = load_head(block, self.own, shape.own, at, shape.rows, shape.depth)
        own_2 = load_head(block, self.own_2, shape.own_2, at, shape.rows, shape.width)
        other = load_head(block, self.other, shape.other, at, shape.columns, shape.depth)
        other_2 = load_head(block, self.other_2, shape.other_2, at, shape.columns, shape.width)
        rows = range(part * count, min((part + 1) * count, shape.rows))
        here = slice(rows.start, rows.stop)
        return _Loaded(at, rows, (own[here] @ other.T, own_2[here] @ other_2.T), other, other_2)

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

    def count(self, counter: TileWork, times: float) -> None:
        rows = times * self.tiling.rows / self.tiling.threads
        scores = self._count_matmuls(counter, times, 2, self.shape.depth)
        counter.body(self.body, scores, None, None)
        counter.body(self.find_most, rows, None, None)
        counter.body(self.summand, scores, None, None)
        counter.body(self.keep, rows, None, None)
        self._close(counter, times, 2)

    def interpret(self, block: TileBlock) -> None:
        loaded = self._loaded(block)
        at, columns = loaded.at, range(self.shape.columns)
        places = [(*at, row, column) for row in loaded.rows for column in columns]
        given = dict(zip((self.score, self.gradient), loaded.products, strict=True))
        _, summands = elementwise(block, self.summand, self.position, places, given)
        sums = summands.sum(1)
        elementwise(block, self.keep, self.position[:3], [(*at, row) for row in loaded.rows], {self.row_sum: sums})
        given[self.row_sum] = np.repeat(sums[:, None], len(columns), 1)
        _, gradients, _ = elementwise(block, self.body, self.position, places, given)
        for row, its_gradients in zip(loaded.rows, gradients, strict=True):
            store_row(block, self.result, self.shape.result, (*at, row), its_gradients @ loaded.other)

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

    def count(self, counter: TileWork, times: float) -> None:
        shape, tiling = self.shape, self.tiling
        scores = self._count_matmuls(counter, times, 1, shape.depth + shape.width)
        counter.vectors(self.result_2, times * tiling.rows * shape.width, True)
        counter.body(self.body, scores, None, None)
        beyond = shape.columns - min(shape.columns, tiling.tiles(shape) * tiling.tile)  # queries that no tile has
        counter.body(self.find_most, times * beyond / tiling.threads, None, None)
        self._close(counter, times, 1)

    def interpret(self, block: TileBlock) -> None:
        assert self.shape.result_2 is not None
        loaded = self._loaded(block)
        places = [(*loaded.at, column, row) for row in loaded.rows for column in range(self.shape.columns)]
        given = dict(zip((self.score, self.gradient), loaded.products, strict=True))
        weights, gradients = elementwise(block, self.body, self.position, places, given)
        for row, its_weights, its_gradients in zip(loaded.rows, weights, gradients, strict=True):
            store_row(block, self.result, self.shape.result, (*loaded.at, row), its_gradients @ loaded.other)
            store_row(block, self.result_2, self.shape.result_2, (*loaded.at, row), its_weights @ loaded.other_2)

    def lines(self, block: Block) -> Iterator[str]:
        yield from self._head_lines(block, f"{self.result}, {self.result_2}", "keys")
        yield f"  {self.score}, {self.gradient}:"
        yield from block(self.body, "    ")
