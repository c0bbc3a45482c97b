"""Scalar expressions of the kernel IR. `dtype` is the type of the value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.index import Index


@dataclass(frozen=True)
class Literal:
    value: float | int | bool
    dtype: DType


@dataclass(frozen=True)
class Local:
    """A scalar variable: a let, or an accumulator."""

    name: str
    dtype: DType


@dataclass(frozen=True)
class FromIndex:
    """An index as a number."""

    index: Index
    dtype: DType


@dataclass(frozen=True)
class Load:
    """An element of a buffer, converted to the compute type."""

    buffer: str
    index: Index
    dtype: DType


@dataclass(frozen=True)
class Element:
    """An element of a local or shared array."""

    array: str
    index: Index
    dtype: DType


@dataclass(frozen=True)
class InRange:
    """low <= index < high, as a bool."""

    index: Index
    low: int
    high: int
    dtype: DType = DType.BOOL


@dataclass(frozen=True)
class Apply:
    """An elementwise op on operands of its operand type; CAST converts args[0] to dtype. Halves compute in float32: a
    CAST to one rounds to what is one, and leaves it there.

    Attributes:
        half: the result stands for a half, so that a function will do that is exact to its bits and a few more.
    """

    kind: OpKind
    args: tuple[Expr, ...]
    dtype: DType
    half: bool = False


Expr: TypeAlias = Literal | Local | FromIndex | Load | Element | InRange | Apply


def both(a: Expr | None, b: Expr | None) -> Expr | None:
    """The condition that both hold; None always holds."""
    if a is None or b is None:
        return a or b
    return Apply(OpKind.AND, (a, b), DType.BOOL)
