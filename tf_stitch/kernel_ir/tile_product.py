"""A tile of a matmul by one thread of a CPU. Its C is in emit/cpu_matmul.h."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.index import Index, Var
from tf_stitch.kernel_ir.interpreted_elements import load_matrix
from tf_stitch.kernel_ir.roles import Role
from tf_stitch.kernel_ir.scope import Scope, require
from tf_stitch.kernel_ir.statement import ArrayName, At, Reads
from tf_stitch.kernel_ir.tile_statement import Block, TileBlock, TileStatement, TileVerifier
from tf_stitch.kernel_ir.tile_work import TileWork
from tf_stitch.kernel_ir.work import Access

LEAST_COLUMNS = 16
"""Of a tile: a vector of the widest registers. The last vector of a row ends with the row."""

BUSY_ROWS = 4
"""With two vectors each, as many as are needed for one multiply-add to begin after the other."""


@dataclass(frozen=True)
class TileProduct(TileStatement):
    """results[i * width + j] = the sum of a[i, t] b[t, j] over all terms, in float32: each product is added by one
    fused multiply-add, in order.

    Attributes:
        results: an array, rows of `width` elements.
        rows, columns: of the tile; the limits, where given, say that there are fewer.
        a, a_array: the buffer or the array that has a[i, t] at a_at + i * a_row + t * a_term; the other one is "".
        b, b_array: the buffer or the array that has b[t, j] at b_at + t * b_term + j.
    """

    results: ArrayName
    width: int
    rows: int
    columns: int
    terms: int
    a: Reads
    a_array: ArrayName
    a_at: At
    a_row: int
    a_term: int
    b: Reads
    b_array: ArrayName
    b_at: At
    b_term: int
    row_limit: Annotated[Index | None, Role.OPERAND] = None
    column_limit: Annotated[Index | None, Role.OPERAND] = None

    @property
    def multiply_adds(self) -> int:
        """What they take: sums of few rows wait for each other."""
        return max(self.rows, BUSY_ROWS) * self.columns * self.terms

    def verify(self, verifier: TileVerifier, scope: Scope) -> None:
        require(verifier.threads == 1, "a tile of one thread in a block of several")
        require(self.columns >= LEAST_COLUMNS, f"a tile of {self.columns} columns")
        require(scope.arrays[self.results] >= (self.rows - 1) * self.width + self.columns and
                self.width >= self.columns, f"{self.results} has no room for {self.rows} rows")
        require(bool(self.a) is not bool(self.a_array) and bool(self.b) is not bool(self.b_array),
                "an operand lies in a buffer or in an array")

    def count(self, counter: TileWork, times: float) -> None:
        counter.op(DType.F32, OpKind.DOT, times * self.multiply_adds, Var("column", self.columns))
        for name, elements in ((self.a, self.rows * self.terms), (self.b, self.terms * self.columns)):
            if name:
                counter.work.accesses.append(Access(name, times * elements, times * elements, 1, 1, False))

    def interpret(self, block: TileBlock) -> None:
        rows, columns = _below(self.rows, self.row_limit, block), _below(self.columns, self.column_limit, block)
        terms = np.arange(self.terms)
        a = self._operand(block, self.a, self.a_array, _value(self.a_at, block)
                          + self.a_row * np.arange(rows)[:, None] + self.a_term * terms)
        b = self._operand(block, self.b, self.b_array, _value(self.b_at, block)
                          + self.b_term * terms[:, None] + np.arange(columns))
        product = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)
        for i in range(rows):
            block.set_elements(self.results, range(i * self.width, i * self.width + columns), product[i])

    def _operand(self, block: TileBlock, buffer: str, array: str, at: NDArray[Any]) -> NDArray[Any]:
        if buffer:
            return load_matrix(block, buffer, at)
        return block.elements(array, at.ravel().tolist()).reshape(at.shape)

    def lines(self, block: Block) -> Iterator[str]:
        rows = self.rows if self.row_limit is None else f"min({self.rows}, {self.row_limit})"
        columns = self.columns if self.column_limit is None else f"min({self.columns}, {self.column_limit})"
        yield (f"{self.results}[{rows} x {columns}, rows of {self.width}] = "
               f"{self.a or self.a_array}[{self.a_at} + row*{self.a_row} + term*{self.a_term}] "
               f"{self.b or self.b_array}[{self.b_at} + term*{self.b_term} + column], {self.terms} terms")


def _value(index: Index, block: TileBlock) -> int:
    return index.value({v: block.indices[0][v.name] for v in index.variables()})


def _below(extent: int, limit: Index | None, block: TileBlock) -> int:
    return extent if limit is None else min(extent, _value(limit, block))
