"""The statements of matmul kernels. Sizes and tilings are in matmul.py, CUDA C++ in emit/matmul.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.kernel_ir.index import Var
from tf_stitch.kernel_ir.interpreted_elements import load_matrix, on_vectors
from tf_stitch.kernel_ir.matmul import (
    WARPGROUP,
    MatmulOperand,
    MatmulShape,
    MatmulTiling,
    finished_by_each,
    shared_words,
    tiles_of,
)
from tf_stitch.kernel_ir.scope import Scope, require
from tf_stitch.kernel_ir.statement import ArrayName, Body, Reads, Statement, Writes
from tf_stitch.kernel_ir.statements import WHOLE_BLOCK, WaitsAt
from tf_stitch.kernel_ir.tile_statement import Block, TileBlock, TileStatement, TileVerifier
from tf_stitch.kernel_ir.tile_work import TileWork


@dataclass(frozen=True)
class _Operand:
    """One of a matmul's.

    Attributes:
        buffer: "" for what `load` computes.
        place: variables of `load`.
        extent: rows or columns of a block's tile.
    """

    name: str
    buffer: str
    its: MatmulOperand
    place: tuple[Var, Var, Var]
    load: tuple[Statement, ...]
    extent: int


@dataclass(frozen=True)
class Matmul(TileStatement):
    """a b, all threads of the block together, each block the results of a tile. See kernel_ir.matmul.

    Attributes:
        a, b: buffers of operands that lie in memory as they are; "" for what a body computes.
        tiles: a shared array of `shared_words` elements.
        load_a, load_b: fill the array `values` of their vector with what stands at a place of the operand, which is
            empty for what lies in memory.
        a_place, b_place: variables of these bodies: matrix, line and vector along the line.
        finish: does with the results in the array `results`, of the shape's vector, what is to be done, at a place:
            matrix, row and vector along the row. It may change them.
        ahead: a MatmulPrefetch of b stands before.
        maps: of a tiling in pairs, memory in which each block describes its operands, BLOCK_MAPS floats each; else "".
    """

    shape: MatmulShape
    tiling: MatmulTiling
    a: Reads
    b: Reads
    tiles: ArrayName
    values: str
    a_place: tuple[Var, Var, Var]
    load_a: Body
    b_place: tuple[Var, Var, Var]
    load_b: Body
    results: str
    place: tuple[Var, Var, Var]
    finish: Body
    barrier: WaitsAt = WHOLE_BLOCK
    ahead: bool = False
    maps: Writes = ""

    @property
    def operands(self) -> tuple[_Operand, _Operand]:
        shape, tiling = self.shape, self.tiling
        return (_Operand("a", self.a, shape.a, self.a_place, self.load_a, tiling.rows),
                _Operand("b", self.b, shape.b, self.b_place, self.load_b, tiling.columns))

    def verify(self, verifier: TileVerifier, scope: Scope) -> None:
        shape, tiling, cluster = self.shape, self.tiling, verifier.program.cluster
        require(verifier.threads == tiling.threads, f"a matmul by {verifier.threads} threads")
        require(tiling.cluster == cluster, f"{tiling.cluster} blocks share a matmul in clusters of {cluster}")
        require(bool(self.maps) is bool(tiling.pair), "operands are described for pairs of blocks")
        words = shared_words(shape, tiling)
        require(scope.arrays.get(self.tiles, 0) >= words, f"{self.tiles} cannot hold {words} words")
        for of in self.operands:
            require(bool(of.buffer) is (of.its.place is not None), f"operand {of.buffer or 'of a body'} of a matmul")
            _verify_at(verifier, scope, of.place, self.values, of.its.vector, of.load)
        across = tiling.columns
        require(shape.n % shape.gates == 0 == across % shape.finished and shape.gate_columns % shape.vector == 0,
                f"{shape.gates} gates of {shape.n} columns, {shape.vector} at a time in tiles of {across}")
        _verify_at(verifier, scope, self.place, self.results, shape.finished, self.finish)

    def count(self, counter: TileWork, times: float) -> None:
        """Plain operands are there when their turn comes, but for the first; a computed one is waited for in every
        step, for as long as it is not in fewer. Parts are short: what they have under way is soon there, and waited
        for."""
        shape, tiling = self.shape, self.tiling
        times *= tiling.turns(shape)
        results = times * tiling.rows * tiling.columns / tiling.threads
        if tiling.pair:
            self._count_pairs(counter, times, results)
            return
        own_terms = shape.k / tiling.sharers
        if tiling.warpgroups:
            counter.work.in_turn = True
            counter.work.warpgroup_starts += 1
            counter.work.warpgroup_multiply_adds += results * own_terms * shape.dtype.size / 4
        else:
            counter.work.multiply_adds += results * own_terms * shape.dtype.size / 4
        for of in self.operands:
            elements = times * of.extent * own_terms
            if of.its.place is not None:
                counter.vectors(of.buffer, elements, False)
            else:
                counter.at_places(of.place, of.load, elements / tiling.threads / of.its.vector)
        steps = tiling.steps(shape)
        waits = steps + 2 if tiling.parts == 1 and not tiling.warpgroups else 2
        counter.waits(counter.threads, waits * times)
        counter.close_round(times, 1.0 if tiling.parts == 1 else ceil_div(steps, tiling.stages - 1))
        counter.work.cross_block_reductions += times * (tiling.sharers > 1)
        counter.at_places(self.place, self.finish, results / tiling.sharers / shape.finished)
        counter.work.elements += 2 * results

    def _count_pairs(self, counter: TileWork, times: float, results: float) -> None:
        """While one tile's results are finished the next one's terms are multiplied. Loads of results wait once."""
        shape, tiling = self.shape, self.tiling
        counter.work.paired.append((shape, tiling, times))
        each = shape.matrices * shape.k / tiling.blocks(shape)  # of an operand's lines, by a block, if each comes once
        for name, extent in ((self.a, shape.m), (self.b, shape.n)):
            counter.vectors(name, extent * each, False)
        counter.close_round(times, 1.0)
        counter.at_places(self.place, self.finish, results / shape.finished)

    def interpret(self, block: TileBlock) -> None:
        for matrix, rows, columns in tiles_of(block.block, self.shape, self.tiling):
            if rows and columns:
                self._interpret_tile(block, matrix, rows, columns)

    def _interpret_tile(self, block: TileBlock, matrix: int, rows: range, columns: range) -> None:
        shape, tiling = self.shape, self.tiling
        a_operand, b_operand = self.operands
        a = self._loaded(block, a_operand, matrix, rows)
        gates = [range(first + columns.start, first + columns.stop) for first in range(0, shape.n, shape.gate_columns)]
        b = np.stack([self._loaded(block, b_operand, matrix, gate) for gate in gates])
        results = np.einsum("rk,gck->rgc", a.astype(np.float32), b.astype(np.float32))
        chunks = range(columns.start // shape.vector, columns.stop // shape.vector)
        each, across = finished_by_each(shape, tiling), tiling.columns // shape.finished
        own = [(row, chunk) for row in rows for chunk in chunks if block.block % tiling.sharers
               == ((row - rows.start) * across + chunk - chunks.start) // each]
        vectors = results.reshape(len(rows), shape.gates, len(chunks), shape.vector)
        given = [dict(enumerate(vectors[row - rows.start, :, chunk - chunks.start].ravel())) for row, chunk in own]
        on_vectors(block, self.finish, self.place, [(matrix, *at) for at in own], self.results, shape.finished, given)

    def _loaded(self, block: TileBlock, of: _Operand, matrix: int, lines: range) -> NDArray[Any]:
        """[rows or columns of the tile, or of one gate of it, terms]."""
        terms, its = self.shape.k, of.its
        length = terms if its.along_terms else lines.stop
        chunks = range(0 if its.along_terms else lines.start // its.vector, length // its.vector)
        stored = lines if its.along_terms else range(terms)
        if its.place is not None:
            first = its.place.offset + matrix * its.place.matrix + its.place.line * np.asarray(stored)
            elements = np.arange(chunks.start * its.vector, chunks.stop * its.vector)
            found = load_matrix(block, of.buffer, first[:, None] + elements)
        else:
            places = [(matrix, line, chunk) for line in stored for chunk in chunks]
            nothing: list[dict[int, Any]] = [{}] * len(places)
            filled = on_vectors(block, of.load, of.place, places, self.values, its.vector, nothing)
            found = np.asarray(filled).reshape(len(stored), -1)
        return found if its.along_terms else found.T

    def lines(self, block: Block) -> Iterator[str]:
        shape, tiling = self.shape, self.tiling
        form = "x".join(map(str, (shape.matrices, shape.m, shape.k, shape.n)))
        parts = f"{tiling.sharers} blocks of " if tiling.sharers > 1 else ""
        parts += f"{tiling.parts} times " if tiling.parts > 1 else ""
        warps = f"{tiling.row_warps // WARPGROUP} warpgroups" if tiling.warpgroups else \
            f"{tiling.row_warps}x{tiling.column_warps} warps"
        warps += f" of two blocks that share {tiling.pair}" if tiling.pair else ""
        yield (f"matmul {form} {shape.dtype.value} by {parts}{warps}, "
               f"tiles {tiling.rows}x{tiling.columns}, {tiling.stages} stages of {tiling.words} words:")
        for of in self.operands:
            lies = "rows" if of.its.along_terms is (of.name == "a") else "columns"
            if of.buffer:
                yield f"  {of.name} = {of.buffer} by {lies}{', prefetched' if of.name == 'b' and self.ahead else ''}"
            else:
                yield (f"  {of.name} = {self.values} by {lies}, {of.its.vector} at "
                       f"{', '.join(v.name for v in of.place)}:")
                yield from block(of.load, "    ")
        each = f"{shape.vector} of each of {shape.gates} gates" if shape.gates > 1 else shape.vector
        yield f"  {self.results}, {each} at {', '.join(v.name for v in self.place)}:"
        yield from block(self.finish, "    ")


@dataclass(frozen=True)
class MatmulPrefetch(TileStatement):
    """Begins to copy the first stages of a matmul's second operand, which lies in memory as it is.

    Attributes:
        tiles: the array of the Matmul that follows, of this shape and tiling.
    """

    shape: MatmulShape
    tiling: MatmulTiling
    b: Reads
    tiles: ArrayName

    def verify(self, verifier: TileVerifier, scope: Scope) -> None:
        require(self.shape.b.place is not None, "a prefetch of what a body computes")
        require(any(isinstance(s, Matmul) and s.ahead and (s.b, s.tiles, s.shape, s.tiling) ==
                    (self.b, self.tiles, self.shape, self.tiling) for s in verifier.program.body),
                f"no matmul waits for the prefetch of {self.b}")

    def count(self, counter: TileWork, times: float) -> None:
        """Takes no time that is known here."""

    def interpret(self, block: TileBlock) -> None:
        """Has no meaning but for time."""

    def lines(self, block: Block) -> Iterator[str]:
        yield f"prefetch stages of {self.b}"


def _verify_at(verifier: TileVerifier, scope: Scope, place: Sequence[Var], array: str, size: int,
               body: Sequence[Statement]) -> None:
    """A body that runs at a place, with an array of that size."""
    inner = scope.inner(place)
    inner.arrays[array] = size
    verifier.body(body, inner, parted=True)

