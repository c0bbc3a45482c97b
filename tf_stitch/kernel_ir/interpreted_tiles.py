"""Statements about whole tiles as the interpreter runs them: attention, its gradients, and matmuls. What is done with
single elements is done by the block's threads, as many elements at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from itertools import product
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
        """The block's queries."""
        shape, rows = stmt.shape, stmt.tiling.rows
        matrix, part = divmod(self.block, stmt.tiling.parts(shape.queries))
        outer, head = divmod(matrix, shape.heads)

        q = self._matrix(stmt.q, shape.q, outer, head, shape.queries, shape.depth)
        keys = self._matrix(stmt.k, shape.k, outer, head, shape.keys, shape.depth)
        v = self._matrix(stmt.v, shape.v, outer, head, shape.keys, shape.width)
        queries = range(part * rows, min((part + 1) * rows, shape.queries))
        places = list(product((outer,), (head,), queries, range(shape.keys)))
        [scores] = self._elementwise(stmt.body, active, stmt.position, places, {
            stmt.score: q[queries.start:queries.stop] @ keys.T})
        most = scores.max(1)
        weights = np.exp(scores - most[:, None])
        total = weights.sum(1)
        self._elementwise(stmt.keep, active, stmt.position[:3], [place[:3] for place in places[::shape.keys]],
                          {stmt.most: most, stmt.total: total})
        [weighed] = self._elementwise(stmt.weigh, active, stmt.position, places, {
            stmt.weight: weights / total[:, None]})
        for query, row in zip(queries, weighed, strict=True):
            self._store_row(stmt.out, shape.out, (outer, head, query), row @ v)

    @tile_rules(k.AttentionQueryGradient, k.AttentionKeyGradient)
    def _attention_gradient(self, stmt: k.AttentionQueryGradient | k.AttentionKeyGradient, active: list[int]) -> None:
        """The block's rows."""
        shape, count = stmt.shape, stmt.tiling.rows
        matrix, part = divmod(self.block, stmt.tiling.parts(shape.rows))
        outer, head = divmod(matrix, shape.heads)
        own = self._matrix(stmt.own, shape.own, outer, head, shape.rows, shape.depth)
        own_2 = self._matrix(stmt.own_2, shape.own_2, outer, head, shape.rows, shape.width)
        other = self._matrix(stmt.other, shape.other, outer, head, shape.columns, shape.depth)
        other_2 = self._matrix(stmt.other_2, shape.other_2, outer, head, shape.columns, shape.width)
        rows, columns = range(part * count, min((part + 1) * count, shape.rows)), range(shape.columns)
        here = slice(rows.start, rows.stop)
        given = {stmt.score: own[here] @ other.T, stmt.gradient: own_2[here] @ other_2.T}
        if isinstance(stmt, k.AttentionQueryGradient):
            places = list(product((outer,), (head,), rows, columns))
            _, summands = self._elementwise(stmt.summand, active, stmt.position, places, given)
            sums = summands.sum(1)
            self._elementwise(stmt.keep, active, stmt.position[:3], [place[:3] for place in places[::shape.columns]],
                              {stmt.row_sum: sums})
            given |= {stmt.row_sum: np.repeat(sums[:, None], shape.columns, 1)}
        else:
            places = [(outer, head, column, row) for row in rows for column in columns]
        weights, gradients, *_ = self._elementwise(stmt.body, active, stmt.position, places, given)
        for row, its_weights, its_gradients in zip(rows, weights, gradients, strict=True):
            self._store_row(stmt.result, shape.result, (outer, head, row), its_gradients @ other)
            if isinstance(stmt, k.AttentionKeyGradient):
                assert shape.result_2 is not None
                self._store_row(stmt.result_2, shape.result_2, (outer, head, row), its_weights @ other_2)

    def _elementwise(self, body: Sequence[k.Stmt], active: Sequence[int], place: Sequence[Var],
                     at: Sequence[Sequence[int]], given: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """What `body` makes of the scalars that are given.

        Args:
            place, at: variables of the body, and their values for each element.
        """
        made = [values.flatten() for values in given.values()]
        for first in range(0, len(at) if body else 0, len(active)):
            threads = active[:len(at) - first]
            for i, t in enumerate(threads, first):
                self._bind(place, at[i], t)
                self.scalars[t] |= {name: values[i] for name, values in zip(given, made, strict=True)}
            self.run_body(body, list(threads))
            for i, t in enumerate(threads, first):
                for name, values in zip(given, made, strict=True):
                    values[i] = self.scalars[t][name]
        return [values.reshape(like.shape) for values, like in zip(made, given.values(), strict=True)]

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
        """The block's tiles."""
        for matrix, rows, columns in tiles_of(self.block, stmt.shape, stmt.tiling):
            if rows and columns:
                self._tile(stmt, matrix, rows, columns, active)

    def _tile(self, stmt: k.Matmul, matrix: int, rows: range, columns: range, active: Sequence[int]) -> None:
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
                at = list(product((matrix,), stored, chunks))
                nothing: list[Any] = [{}] * len(at)
                filled = self._on_vectors(body, active, place, at, (stmt.values, its.vector), nothing)
                found = np.asarray(filled).reshape(len(stored), -1)
            return found if its.along_terms else found.T

        a = operand(stmt.a, shape.a, stmt.a_place, stmt.load_a, rows)
        gates = [range(first + columns.start, first + columns.stop) for first in range(0, shape.n, shape.gate_columns)]
        b = np.stack([operand(stmt.b, shape.b, stmt.b_place, stmt.load_b, gate) for gate in gates])
        results = np.einsum("rk,gck->rgc", a.astype(np.float32), b.astype(np.float32))
        chunks = range(columns.start // shape.vector, columns.stop // shape.vector)
        each, across = finished_by_each(shape, tiling), tiling.columns // shape.finished
        own = [(row, chunk) for row, chunk in product(rows, chunks) if self.block % tiling.sharers
               == ((row - rows.start) * across + chunk - chunks.start) // each]
        vectors = results.reshape(len(rows), shape.gates, len(chunks), shape.vector)
        given = [dict(enumerate(vectors[row - rows.start, :, chunk - chunks.start].ravel())) for row, chunk in own]
        self._on_vectors(stmt.finish, active, stmt.place, [(matrix, *at) for at in own],
                         (stmt.results, shape.finished), given)

    def _on_vectors(self, body: Sequence[k.Stmt], active: Sequence[int], place: Sequence[Var],
                    at: Sequence[Sequence[int]], array: tuple[str, int], given: Sequence[Mapping[int, Any]]
                    ) -> list[list[Any]]:
        """The vectors that `body` leaves in an array, one at each place, of those elements that there are.

        Args:
            array: its name and size.
            given: elements that it has before.
        """
        name, size = array
        self.sizes[name] = size
        left: list[list[Any]] = []
        for first in range(0, len(at), len(active)):
            threads = active[:len(at) - first]
            for i, t in enumerate(threads, first):
                self._bind(place, at[i], t)
                self.arrays[t][name] = dict(given[i])
            self.run_body(body, list(threads))
            left += ([self.arrays[t][name][i] for i in sorted(self.arrays[t][name])] for t in threads)
        return left

    def _bind(self, place: Sequence[Var], at: Sequence[int], thread: int) -> None:
        self.indices[thread] |= {variable.name: value for variable, value in zip(place, at, strict=True)}
