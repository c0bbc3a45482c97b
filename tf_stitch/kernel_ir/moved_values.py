"""Halves and float8 that a program only moves: nothing computes with them, so that they need not become float32 on the
way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.walk import evaluated, statements


@dataclass(frozen=True)
class MovedValues:
    """What a program moves.

    Attributes:
        dtype_of: element types of buffers.
        scalars: name -> the narrow type, for those that are given elements of that type, constants or each other, and
            go nowhere but into memory of that type, and into each other.
    """

    dtype_of: Mapping[str, DType]
    scalars: Mapping[str, DType]

    def has(self, value: k.Expr, dtype: DType) -> bool:
        """Whether a value is an element in memory, a constant or one of `scalars`, of this narrow type; or a choice of
        such."""
        return dtype.is_narrow and all(
            _is_constant(leaf) or self.type_of(leaf) is dtype for leaf in _leaves(value))

    def type_of(self, leaf: k.Expr) -> DType | None:
        """The element type of what is in memory, or one of `scalars`."""
        if isinstance(leaf, k.Load):
            return self.dtype_of[leaf.buffer]
        return self.scalars.get(leaf.name) if isinstance(leaf, k.Local) else None

    def computed(self, stmt: k.Stmt) -> Iterator[str]:
        """Scalars that a statement computes, or computes with; not those that it moves."""
        passed: set[str] = set()
        if isinstance(stmt, k.Let | k.Assign | k.Store):
            to = self.dtype_of[stmt.buffer] if isinstance(stmt, k.Store) else self.scalars.get(stmt.name)
            if to is not None and self.has(stmt.value, to):
                passed = {leaf.name for leaf in _leaves(stmt.value) if isinstance(leaf, k.Local)}
            elif not isinstance(stmt, k.Store):
                yield stmt.name
        elif isinstance(stmt, k.Update):
            yield stmt.name
        elif isinstance(stmt, k.ArgUpdate):
            yield stmt.best
        yield from (e.name for e in evaluated(stmt) if isinstance(e, k.Local) and e.name not in passed)


def moved_values(body: Sequence[k.Stmt], dtype_of: Mapping[str, DType]) -> MovedValues:
    """The moved values of a program.

    Args:
        dtype_of: element types of buffers.
    """
    scalars: dict[str, DType] = {}
    found = MovedValues(dtype_of, scalars)
    for stmt in statements(body):
        if isinstance(stmt, k.Let | k.Assign):
            for dtype in map(found.type_of, _leaves(stmt.value)):
                if dtype is not None and dtype.is_narrow:
                    scalars[stmt.name] = dtype
    while scalars:
        computed = scalars.keys() & {name for stmt in statements(body) for name in found.computed(stmt)}
        if not computed:
            break
        for name in computed:
            del scalars[name]
    return found


def _is_constant(leaf: k.Expr) -> bool:
    return isinstance(leaf, k.Literal) and not isinstance(leaf.value, SymbolicDim)


def _leaves(value: k.Expr) -> Iterator[k.Expr]:
    """What a value is chosen from."""
    if isinstance(value, k.Apply) and value.kind is OpKind.SELECT:
        for choice in value.args[1:]:
            yield from _leaves(choice)
    else:
        yield value
