"""What one thread does in statements about whole tiles: attention, its gradients, and matmuls."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.attention import SingleQueryTiling
from tf_stitch.kernel_ir.by_type import ByType
from tf_stitch.kernel_ir.index import Var
from tf_stitch.kernel_ir.matmul import PAIR_START_US, pair_turn_us
from tf_stitch.kernel_ir.work import Access, Work

WARPGROUP_RATE = 3.0
"""How much faster tensor cores multiply by wgmma than by mma.sync: WARPGROUP_MACS for 960 of half types."""
BLOCK_START_US = 2.0
"""Of blocks alone whose warpgroups multiply, before the first terms are there: an H200 took 9 to 18 us for kernels of
which 5 to 13 were predicted without."""
tile_rules: ByType[None] = ByType("the work counter of tiles")
"""As of count_work: (stmt, times, innermost vector loop, innermost serial loop)."""


class TileWork:
    """The work of a program's thread.

    Attributes:
        work: what was counted so far.
    """

    def __init__(self, program: k.Program) -> None:
        self.work = Work()
        self._threads, self._warp = program.threads, program.warp
        self._loops: list[Var] = []
        self._loading = 0.0  # rounds of loads since the last reduction

    @abstractmethod
    def body(self, body: Sequence[k.Stmt], times: float, simd: Var | None, serial: Var | None) -> None:
        """Counts the statements of an element, or of a row, that are run so often."""

    @abstractmethod
    def _op(self, dtype: DType, kind: OpKind, times: float, simd: Var | None) -> None:
        """Counts ops."""

    @tile_rules(k.Attention)
    def _attention(self, stmt: k.Attention, times: float, simd: Var | None, serial: Var | None) -> None:
        """Keys and values are there when a tile's turn comes, but for the first; a tile's matmuls, exponentials and
        their sums wait for each other."""
        shape, tiling = stmt.shape, stmt.tiling
        if isinstance(tiling, SingleQueryTiling):
            self._attention_single(stmt, tiling, times)
            return
        tiles = tiling.tiles(shape)
        keys = min(float(shape.keys), tiles * tiling.tile)
        scores = times * tiling.rows * keys / tiling.threads
        own = {stmt.q: tiling.rows * shape.depth, stmt.out: tiling.rows * shape.width}
        for name, elements in (*own.items(), (stmt.k, keys * shape.depth), (stmt.v, keys * shape.width)):
            self._vectors(name, times * elements, name == stmt.out)
        self.body(stmt.body, scores, None, None)
        self.work.multiply_adds += scores * (shape.depth + shape.width) * shape.dtype.size / 4
        for kind, count in ((OpKind.EXP, scores), (OpKind.MAXIMUM, scores), (OpKind.ADD, scores)):
            self._op(DType.F32, kind, count, None)
        for width, often in ((self._warp, 2 * tiles), (self._threads, tiles + 1)):
            self._waits(width, often * times)
        self.body(stmt.weigh, scores, None, None)
        self.body(stmt.keep, times * tiling.rows / tiling.threads, None, None)
        self._loading = 1.0
        self.close_round(times)

    def _attention_single(self, stmt: k.Attention, tiling: SingleQueryTiling, times: float) -> None:
        """Keys and values of a tile come together; threads that share a row all compute what becomes of its score."""
        shape = stmt.shape
        scores = times * ceil_div(shape.keys, tiling.groups)
        for name, elements in ((stmt.q, shape.depth * tiling.groups), (stmt.out, shape.width),
                               (stmt.k, shape.keys * shape.depth), (stmt.v, shape.keys * shape.width)):
            self._vectors(name, times * elements, name == stmt.out)
        terms = scores * (shape.depth + shape.width) / tiling.lanes
        for kind, count in ((OpKind.MUL, terms), (OpKind.ADD, terms), (OpKind.EXP, scores), (OpKind.MAXIMUM, scores)):
            self._op(DType.F32, kind, count, None)
        for body in (stmt.body, stmt.weigh):
            self.body(body, scores, None, None)
        self.body(stmt.keep, times / tiling.threads, None, None)
        self.work.shuffles += scores * (tiling.lanes.bit_length() - 1)
        tiles = ceil_div(shape.keys, tiling.tile)
        for width, often in ((tiling.lanes, tiles), (self._threads, 1)):
            self._waits(width, often * times)
        self._loading = float(tiles)
        self.close_round(times)

    @tile_rules(k.AttentionQueryGradient, k.AttentionKeyGradient)
    def _attention_gradient(self, stmt: k.AttentionQueryGradient | k.AttentionKeyGradient, times: float,
                            simd: Var | None, serial: Var | None) -> None:
        """As of an attention; where blocks have queries, they take all keys twice."""
        shape, tiling = stmt.shape, stmt.tiling
        by_queries = isinstance(stmt, k.AttentionQueryGradient)
        passes, tiles = 2 if by_queries else 1, tiling.tiles(shape)
        columns = min(shape.columns, tiles * tiling.tile)
        scores = times * tiling.rows * tiles * tiling.tile / tiling.threads  # those beyond the last, too
        reads = {stmt.own: tiling.rows * shape.depth, stmt.own_2: tiling.rows * shape.width,
                 stmt.other: passes * columns * shape.depth, stmt.other_2: passes * columns * shape.width}
        writes = {stmt.result: tiling.rows * shape.depth}
        if isinstance(stmt, k.AttentionKeyGradient):
            writes[stmt.result_2] = tiling.rows * shape.width
        for names, is_written in ((reads, False), (writes, True)):
            for name, elements in names.items():
                self._vectors(name, times * elements, is_written)
        multiplied = passes * (shape.depth + shape.width) + shape.depth + (0 if by_queries else shape.width)
        self.work.multiply_adds += scores * multiplied * shape.dtype.size / 4
        self.body(stmt.body, scores, None, None)
        asked = tiling.rows if by_queries else shape.columns - columns  # queries, for their largest scores
        self.body(stmt.find_most, times * asked / tiling.threads, None, None)
        if isinstance(stmt, k.AttentionQueryGradient):
            self.body(stmt.summand, scores, None, None)
            self.body(stmt.keep, times * tiling.rows / tiling.threads, None, None)
        self._waits(self._threads, passes * tiles * times)
        self._loading = 1.0
        self.close_round(times)

    @tile_rules(k.Matmul)
    def _matmul(self, stmt: k.Matmul, times: float, simd: Var | None, serial: Var | None) -> None:
        """Plain operands are there when their turn comes, but for the first; a computed one is waited for in every
        step, for as long as it is not in fewer. Parts are short: what they have under way is soon there, and waited
        for."""
        shape, tiling = stmt.shape, stmt.tiling
        times *= tiling.turns(shape)
        results = times * tiling.rows * tiling.columns / tiling.threads
        if tiling.pair:
            self._in_pairs(stmt, times, results)
            return
        own_terms = shape.k / tiling.sharers
        if tiling.warpgroups:
            self.work.in_turn, self.work.alone_us = True, self.work.alone_us + BLOCK_START_US
        rate = WARPGROUP_RATE if tiling.warpgroups else 1.0
        self.work.multiply_adds += results * own_terms * shape.dtype.size / 4 / rate
        for name, extent, operand, place, body in ((stmt.a, tiling.rows, shape.a, stmt.a_place, stmt.load_a),
                                                   (stmt.b, tiling.columns, shape.b, stmt.b_place, stmt.load_b)):
            elements = times * extent * own_terms
            if operand.place is not None:
                self._vectors(name, elements, False)
            else:
                self._at_places(place, body, elements / tiling.threads / operand.vector)
        steps = tiling.steps(shape)
        waits = steps + 2 if tiling.parts == 1 and not tiling.warpgroups else 2
        self._waits(self._threads, waits * times)
        self._loading = 1.0 if tiling.parts == 1 else ceil_div(steps, tiling.stages - 1)
        self.close_round(times)
        self.work.cross_block_reductions += times * (tiling.sharers > 1)
        self._at_places(stmt.place, stmt.finish, results / tiling.sharers / shape.finished)
        self.work.elements += 2 * results

    def _in_pairs(self, stmt: k.Matmul, times: float, results: float) -> None:
        """While one tile's results are finished the next one's terms are multiplied. Loads of results wait once."""
        shape, tiling = stmt.shape, stmt.tiling
        turn = pair_turn_us(shape, tiling)
        self.work.alone_us += PAIR_START_US + turn
        self.work.beside_us += (times - 1) * turn
        each = shape.matrices * shape.k / tiling.blocks(shape)  # of an operand's lines, by a block, if each comes once
        for name, extent in ((stmt.a, shape.m), (stmt.b, shape.n)):
            self._vectors(name, extent * each, False)
        self._loading = 1.0
        self.close_round(times)
        self._at_places(stmt.place, stmt.finish, results / shape.finished)

    def _at_places(self, place: Sequence[Var], body: Sequence[k.Stmt], times: float) -> None:
        """A body that a thread runs so often, each time at another place."""
        self._loops.append(Var(place[-1].name, math.ceil(times)))
        self.body(body, times, None, None)
        self._loops.pop()

    def _waits(self, width: int, times: float) -> None:
        """Of this many threads for each other."""
        self.work.reductions[width] = self.work.reductions.get(width, 0.0) + times

    def _vectors(self, buffer: str, elements: float, store: bool) -> None:
        """Elements that the block's threads access once, four at a time."""
        count = elements / self._threads
        self.work.accesses.append(Access(buffer, count, count, 4, 4, store))

    def close_round(self, times: float) -> None:
        """Loads after this wait for those before."""
        self.work.rounds += self._loading * times
        self._loading = 0.0
