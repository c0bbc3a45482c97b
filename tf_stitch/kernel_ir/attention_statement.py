"""The statement of an attention kernel. Sizes and tilings are in attention.py, CUDA C++ in emit/attention.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.kernel_ir.attention import AttentionShape, AttentionTiling, SingleQueryTiling, shared_words
from tf_stitch.kernel_ir.index import Var
from tf_stitch.kernel_ir.interpreted_elements import elementwise, load_head, store_row
from tf_stitch.kernel_ir.scope import Scope, require
from tf_stitch.kernel_ir.statement import ArrayName, Body, Reads, Writes
from tf_stitch.kernel_ir.statements import WHOLE_BLOCK, WaitsAt
from tf_stitch.kernel_ir.tile_statement import Block, TileBlock, TileStatement, TileVerifier
from tf_stitch.kernel_ir.tile_work import TileWork


@dataclass(frozen=True)
class Attention(TileStatement):
    """out = softmax(score(q k^T)) v, all threads of the block together, each block its queries of one head. See
    kernel_ir.attention.

    Attributes:
        q, k, v, out: buffers.
        tiles: a shared array of `shared_words` elements.
        outer, head, query, key: variables of `body`: where a score stands.
        score: a scalar of `body`: the product of the query and the key, which `body` makes what softmax gets.
        weight: a scalar of `weigh`: a multiple of a probability, which `weigh` makes that multiple of a weight.
        most, total: scalars of `keep`, which runs for each query: the largest score, and the sum of exponentials.
    """

    shape: AttentionShape
    tiling: AttentionTiling | SingleQueryTiling
    q: Reads
    k: Reads
    v: Reads
    out: Writes
    tiles: ArrayName
    outer: Var
    head: Var
    query: Var
    key: Var
    score: str
    body: Body
    most: str = "most"
    total: str = "total"
    keep: Body = ()
    weight: str = "weight"
    weigh: Body = ()
    barrier: WaitsAt = WHOLE_BLOCK

    @property
    def position(self) -> tuple[Var, Var, Var, Var]:
        return self.outer, self.head, self.query, self.key

    def verify(self, verifier: TileVerifier, scope: Scope) -> None:
        require(verifier.threads == self.tiling.threads, f"attention by {verifier.threads} threads")
        words = shared_words(self.shape.keys, (self.shape.depth, self.shape.width), self.shape.dtype, self.tiling)
        require(scope.arrays.get(self.tiles, 0) >= words, f"{self.tiles} cannot hold {words} words")
        for scalar, body in ((self.score, self.body), (self.weight, self.weigh)):
            inner = scope.inner(self.position)
            inner.scalars[scalar] = True
            verifier.body(body, inner, parted=True)
        of_query = scope.inner(self.position[:3])
        of_query.scalars |= {self.most: False, self.total: False}
        verifier.body(self.keep, of_query, parted=True)

    def count(self, counter: TileWork, times: float) -> None:
        if isinstance(self.tiling, SingleQueryTiling):
            self._count_single(self.tiling, counter, times)
        else:
            self._count_tiles(self.tiling, counter, times)

    def _count_tiles(self, tiling: AttentionTiling, counter: TileWork, times: float) -> None:
        """Keys and values are there when a tile's turn comes, but for the first; a tile's matmuls, exponentials and
        their sums wait for each other."""
        shape, tiles = self.shape, tiling.tiles(self.shape)
        keys = min(float(shape.keys), tiles * tiling.tile)
        scores = times * tiling.rows * keys / tiling.threads
        for name, elements in ((self.q, tiling.rows * shape.depth), (self.out, tiling.rows * shape.width),
                               (self.k, keys * shape.depth), (self.v, keys * shape.width)):
            counter.vectors(name, times * elements, name == self.out)
        counter.body(self.body, scores, None, None)
        counter.work.multiply_adds += scores * (shape.depth + shape.width) * shape.dtype.size / 4
        for kind in (OpKind.EXP, OpKind.MAXIMUM, OpKind.ADD):
            counter.op(DType.F32, kind, scores, None)
        for width, often in ((counter.warp, 2 * tiles), (counter.threads, tiles + 1)):
            counter.waits(width, often * times)
        counter.body(self.weigh, scores, None, None)
        counter.body(self.keep, times * tiling.rows / tiling.threads, None, None)
        counter.close_round(times, 1.0)

    def _count_single(self, tiling: SingleQueryTiling, counter: TileWork, times: float) -> None:
        """Keys and values of a tile come together; threads that share a row all compute what becomes of its score."""
        shape = self.shape
        scores = times * ceil_div(shape.keys, tiling.groups)
        for name, elements in ((self.q, shape.depth * tiling.groups), (self.out, shape.width),
                               (self.k, shape.keys * shape.depth), (self.v, shape.keys * shape.width)):
            counter.vectors(name, times * elements, name == self.out)
        terms = scores * (shape.depth + shape.width) / tiling.lanes
        for kind, count in ((OpKind.MUL, terms), (OpKind.ADD, terms), (OpKind.EXP, scores), (OpKind.MAXIMUM, scores)):
            counter.op(DType.F32, kind, count, None)
        for body in (self.body, self.weigh):
            counter.body(body, scores, None, None)
        counter.body(self.keep, times / tiling.threads, None, None)
        counter.work.shuffles += scores * (tiling.lanes.bit_length() - 1)
        tiles = ceil_div(shape.keys, tiling.tile)
        for width, often in ((tiling.lanes, tiles), (counter.threads, 1)):
            counter.waits(width, often * times)
        counter.close_round(times, float(tiles))

    def interpret(self, block: TileBlock) -> None:
        shape, rows = self.shape, self.tiling.rows
        matrix, part = divmod(block.block, self.tiling.parts(shape.queries))
        at = divmod(matrix, shape.heads)
        q = load_head(block, self.q, shape.q, at, shape.queries, shape.depth)
        keys = load_head(block, self.k, shape.k, at, shape.keys, shape.depth)
        v = load_head(block, self.v, shape.v, at, shape.keys, shape.width)
        queries = range(part * rows, min((part + 1) * rows, shape.queries))
        places = [(*at, query, key) for query in queries for key in range(shape.keys)]
        products = q[queries.start:queries.stop] @ keys.T
        [scores] = elementwise(block, self.body, self.position, places, {self.score: products})
        most = scores.max(1)
        weights = np.exp(scores - most[:, None])
        total = weights.sum(1)
        elementwise(block, self.keep, self.position[:3], [(*at, query) for query in queries],
                    {self.most: most, self.total: total})
        [weighed] = elementwise(block, self.weigh, self.position, places, {self.weight: weights / total[:, None]})
        for query, row in zip(queries, weighed, strict=True):
            store_row(block, self.out, shape.out, (*at, query), row @ v)

    def lines(self, block: Block) -> Iterator[str]:
        shape = self.shape
        form = "x".join(map(str, (shape.queries, shape.keys, shape.depth, shape.width)))
        yield f"{self.out} = attention {form} of {self.q}, {self.k}, {self.v} by {self.tiling.text}:"
        if shape.causal is not None:
            yield f"  keys above their query + {shape.causal.ahead} score {shape.causal.value:g}"
        yield f"  {self.score} at {', '.join(v.name for v in self.position)}:"
        yield from block(self.body, "    ")
        if self.weigh:
            yield f"  {self.weight}:"
            yield from block(self.weigh, "    ")
        if self.keep:
            yield f"  {self.most}, {self.total} of each query:"
            yield from block(self.keep, "    ")
