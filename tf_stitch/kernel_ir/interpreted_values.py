"""Expressions and indices as the interpreter computes them: for all threads that run a statement at once, as most of
what NumPy takes for a number goes into calling it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tf_stitch.errors import VerifyError
from tf_stitch.ir.op_attrs import CastAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.op_table import OP_TABLE
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.by_type import ByType
from tf_stitch.kernel_ir.checked_memory import CheckedMemory, Writers
from tf_stitch.kernel_ir.index import FloorDiv, Index, Mod, Var

Values: TypeAlias = NDArray[Any]
"""One for each thread asked for."""
_rules: ByType[Values] = ByType("the interpreter")
"""What an expression is: (block, expr, threads)."""


class ThreadValues(CheckedMemory):
    """One block of one phase, with the values of its threads."""

    def __init__(self, program: k.Program, buffers: dict[str, NDArray[Any]], block: int, writers: Writers,
                 scratch: dict[tuple[str, int], int | None], group: int) -> None:
        super().__init__(program, buffers, block, writers, scratch, group)
        self.scalars: list[dict[str, Any]] = [{} for _ in range(self.threads)]
        self.indices: list[dict[str, int]] = [{k.BLOCK: block, k.THREAD: t} for t in range(self.threads)]

    def _values(self, expr: k.Expr, threads: Sequence[int]) -> Values:
        return _rules.of(expr)(self, expr, threads) if threads else np.empty(0)

    def _value(self, expr: k.Expr, t: int) -> Any:
        return self._values(expr, (t,))[0]

    @_rules(k.Literal)
    def _literal(self, expr: k.Literal, threads: Sequence[int]) -> Values:
        return np.full(len(threads), expr.value, expr.dtype.compute.numpy)

    @_rules(k.Local)
    def _local(self, expr: k.Local, threads: Sequence[int]) -> Values:
        return np.asarray([self.scalars[t][expr.name] for t in threads])

    @_rules(k.FromIndex)
    def _from_index(self, expr: k.FromIndex, threads: Sequence[int]) -> Values:
        return np.asarray(self._places(expr.index, threads), expr.dtype.compute.numpy)

    @_rules(k.Load)
    def _loaded(self, expr: k.Load, threads: Sequence[int]) -> Values:
        return self.load_all(expr.buffer, self._places(expr.index, threads))

    @_rules(k.Element)
    def _elements(self, expr: k.Element, threads: Sequence[int]) -> Values:
        places = self._places(expr.index, threads)
        return np.asarray([self._element(expr.array, at, t) for at, t in zip(places, threads, strict=True)])

    @_rules(k.InRange)
    def _in_range(self, expr: k.InRange, threads: Sequence[int]) -> Values:
        return np.asarray([expr.low <= at < expr.high for at in self._places(expr.index, threads)])

    @_rules(k.Apply)
    def _applied(self, expr: k.Apply, threads: Sequence[int]) -> Values:
        attrs = CastAttrs(expr.dtype) if expr.kind is OpKind.CAST else None
        args = [self._values(a, threads) for a in expr.args]
        return np.asarray(OP_TABLE[expr.kind].reference(attrs, *args)).astype(expr.dtype.compute.numpy)

    def _places(self, index: Index, threads: Sequence[int]) -> list[int]:
        """An index by thread."""
        totals = [index.offset] * len(threads)
        for atom, c in index.terms:
            values = self._variable(atom, threads) if isinstance(atom, Var) else self._quotient(atom, threads)
            totals = [total + value * c for total, value in zip(totals, values, strict=True)]
        return totals

    def _index(self, index: Index, t: int) -> int:
        return self._places(index, (t,))[0]

    def _variable(self, variable: Var, threads: Sequence[int]) -> list[int]:
        values = [self.indices[t][variable.name] for t in threads]
        low, high = min(values, default=0), max(values, default=0)
        if low < 0 or high >= max(variable.extent, 1):
            raise VerifyError(f"{variable.name} is {low if low < 0 else high}, outside its extent {variable.extent}")
        return values

    def _quotient(self, atom: FloorDiv | Mod, threads: Sequence[int]) -> list[int]:
        bases = self._places(atom.base, threads)
        if any(base < 0 for base in bases):
            raise VerifyError(f"a division of the negative index {atom.base}")
        if isinstance(atom, FloorDiv):
            return [base // atom.divisor for base in bases]
        return [base % atom.divisor for base in bases]

    def _aligned(self, index: Index, width: int, t: int) -> int:
        value = self._index(index, t)
        if value % width:
            raise VerifyError(f"a vector of {width} starts at element {value}")
        return value
