"""Statements about whole tiles as the interpreter runs them: attention, its gradients, and matmuls, by the first thread
of a block."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.attention import Rows
from tf_stitch.kernel_ir.by_type import ByType
from tf_stitch.kernel_ir.index import Var
from tf_stitch.kernel_ir.interpreted_values import ThreadValues
from tf_stitch.kernel_ir.matmul import MatmulOperand, finished_by_each, tiles_of

tile_rules: ByType[None] = ByType("the interpreter of tiles")
"""What a block does in them: (block, stmt, active threads)."""


class TileStatements(ThreadValues):
    """One block of one phase."""

    @abstractmethod
    def run_body(self, body: Sequence[k.Stmt], active: list[int]) -> None:
        """Runs the statements of an element, or of a row, by these threads."""

    @tile_rules(k.Attention)
    def _attention(self, stmt: k.Attention, active: list[int]) -> None:
        """The block's queries, by the first thread."""
        shape, rows = stmt.shape, stmt.tiling.rows
        matrix, part = divmod(self.block, stmt.tiling.parts(shape.queries))
        outer, head = divmod(matrix, shape.heads)

        q = self._matrix(stmt.q, shape.q, outer, head, shape.queries, shape.depth)
        keys = self._matrix(stmt.k, shape.k, outer, head, shape.keys, shape.depth)
        v = self._matrix(stmt.v, shape.v, outer, head, shape.keys, shape.width)
        for query in range(part * rows, min((part + 1) * rows, shape.queries)):
            scores = keys @ q[query]
            for key in range(shape.keys):
                self.indices[0] |= zip((x.name for x in stmt.position), (outer, head, query, key), strict=True)
                self.scalars[0][stmt.score] = scores[key]
                self.run_body(stmt.body, [0])
                scores[key] = self.scalars[0][stmt.score]
            weights = np.exp(scores - scores.max())
            self.scalars[0] |= {stmt.most: scores.max(), stmt.total: weights.sum()}
            self.run_body(stmt.keep, [0])
            weighed = weights / weights.sum()
            for key in range(shape.keys if stmt.weigh else 0):
                self.indices[0][stmt.key.name] = key
                self.scalars[0][stmt.weight] = weighed[key]
                self.run_body(stmt.weigh, [0])
                weighed[key] = self.scalars[0][stmt.weight]
            self._store_row(stmt.out, shape.out, (outer, head, query), weighed @ v)

    @tile_rules(k.AttentionQueryGradient, k.AttentionKeyGradient)
    def _attention_gradient(self, stmt: k.AttentionQueryGradient | k.AttentionKeyGradient, active: list[int]) -> None:
        """The block's rows, by the first thread."""
        shape, rows = stmt.shape, stmt.tiling.rows
        matrix, part = divmod(self.block, stmt.tiling.parts(shape.rows))
        outer, head = divmod(matrix, shape.heads)
        own = self._matrix(stmt.own, shape.own, outer, head, shape.rows, shape.depth)
        own_2 = self._matrix(stmt.own_2, shape.own_2, outer, head, shape.rows, shape.width)
        other = self._matrix(stmt.other, shape.other, outer, head, shape.columns, shape.depth)
        other_2 = self._matrix(stmt.other_2, shape.other_2, outer, head, shape.columns, shape.width)
        for row in range(part * rows, min((part + 1) * rows, shape.rows)):

            def element(body: tuple[k.Stmt, ...], column: int, row: int = row) -> tuple[Any, Any]:
                at = (row, column) if isinstance(stmt, k.AttentionQueryGradient) else (column, row)
                self.indices[0] |= zip((x.name for x in stmt.position), (outer, head, *at), strict=True)
                self.scalars[0] |= {stmt.score: own[row] @ other[column], stmt.gradient: own_2[row] @ other_2[column]}
                self.run_body(body, [0])
                return self.scalars[0][stmt.score], self.scalars[0][stmt.gradient]

            if isinstance(stmt, k.AttentionQueryGradient):
                self.scalars[0][stmt.row_sum] = sum(element(stmt.summand, column)[1] for column in range(shape.columns))
                self.run_body(stmt.keep, [0])
            pairs = [element(stmt.body, column) for column in range(shape.columns)]
            weights, gradients = (np.asarray(values) for values in zip(*pairs, strict=True))
            self._store_row(stmt.result, shape.result, (outer, head, row), gradients @ other)
            if isinstance(stmt, k.AttentionKeyGradient):
                assert shape.result_2 is not None
                self._store_row(stmt.result_2, shape.result_2, (outer, head, row), weights @ other_2)

    def _matrix(self, name: str, place: Rows, outer: int, head: int, count: int, columns: int) -> NDArray[Any]:
        first = place.offset + outer * place.outer + head * place.head
        at = first + place.row * np.arange(count)[:, None] + np.arange(columns)
        return self._load_matrix(name, at)

    def _load_matrix(self, name: str, at: NDArray[Any]) -> NDArray[Any]:
        return self._load_all(name, at.ravel().tolist()).reshape(at.shape)

    def _store_row(self, name: str, place: Rows, at: tuple[int, int, int], values: NDArray[Any]) -> None:
        outer, head, row = at
        first = place.offset + outer * place.outer + head * place.head + row * place.row
        self._store_all(name, range(first, first + len(values)), values)

    @tile_rules(k.Matmul)
    def _matmul(self, stmt: k.Matmul, active: list[int]) -> None:
        """The block's tiles, by the first thread."""
        for matrix, rows, columns in tiles_of(self.block, stmt.shape, stmt.tiling):
            if rows and columns:
                self._tile(stmt, matrix, rows, columns)

    def _tile(self, stmt: k.Matmul, matrix: int, rows: range, columns: range) -> None:
        shape, tiling = stmt.shape, stmt.tiling

        def operand(name: str, its: MatmulOperand, place: Sequence[Var], body: Sequence[k.Stmt], lines: range
                    ) -> NDArray[Any]:
            """[rows or columns of the tile, or of one gate of it, terms]."""
            length = shape.k if its.along_terms else lines.stop
            chunks = range(0 if its.along_terms else lines.start // its.vector, length // its.vector)
            stored = lines if its.along_terms else range(shape.k)
            if its.place is not None:
                first = its.place.offset + matrix * its.place.matrix + its.place.line * np.asarray(stored)
                found = self._load_matrix(name, first[:, None] + np.arange(chunks.start * its.vector,
                                                                           chunks.stop * its.vector))
            else:
                found = np.asarray([[value for chunk in chunks for value in self._computed(
                    place, stmt.values, its.vector, body, (matrix, line, chunk))] for line in stored])
            return found if its.along_terms else found.T

        a = operand(stmt.a, shape.a, stmt.a_place, stmt.load_a, rows)
        gates = [range(first + columns.start, first + columns.stop) for first in range(0, shape.n, shape.gate_columns)]
        b = np.stack([operand(stmt.b, shape.b, stmt.b_place, stmt.load_b, gate) for gate in gates])
        product = np.einsum("rk,gck->rgc", a.astype(np.float32), b.astype(np.float32))
        each, across = finished_by_each(shape, tiling), tiling.columns // shape.finished
        for row in rows:
            for chunk in range(columns.start // shape.vector, columns.stop // shape.vector):
                number = (row - rows.start) * across + chunk - columns.start // shape.vector
                if number // each != self.block % tiling.sharers:
                    continue
                first = chunk * shape.vector - columns.start
                self._bind(stmt.place, (matrix, row, chunk), stmt.results, shape.finished)
                its_results = product[row - rows.start, :, first:first + shape.vector].reshape(-1)
                self.arrays[0][stmt.results] = dict(enumerate(its_results))
                self.run_body(stmt.finish, [0])

    def _computed(self, place: Sequence[Var], values: str, vector: int, body: Sequence[k.Stmt], at: tuple[int, int, int]
                  ) -> list[Any]:
        """Neighbours of an operand's line, as shared memory holds them."""
        self._bind(place, at, values, vector)
        self.run_body(body, [0])
        return [self.arrays[0][values][i] for i in range(vector)]

    def _bind(self, place: Sequence[Var], at: Sequence[int], array: str, size: int) -> None:
        self.indices[0] |= {variable.name: value for variable, value in zip(place, at, strict=True)}
        self.arrays[0][array], self.sizes[array] = {}, size
