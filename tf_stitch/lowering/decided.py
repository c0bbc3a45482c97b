"""Comparisons of positions whose outcome their bounds tell: most of a row is not where it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import surely_less
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index

_Bounds = tuple[int, int]


def decided(kind: OpKind, args: Sequence[k.Expr]) -> bool | None:
    """What a comparison of an index with a number, or of two indices, gives everywhere; None: either, or no comparison
    of such."""
    compare = _COMPARISONS.get(kind)
    if compare is None:
        return None
    bounds = [_bounds(arg) for arg in args]
    if bounds[0] is None or bounds[1] is None:
        return None
    return compare(bounds[0], bounds[1])


def _bounds(expr: k.Expr) -> _Bounds | None:
    if isinstance(expr, k.FromIndex) and isinstance(expr.index, Index):
        return expr.index.bounds
    if isinstance(expr, k.Literal) and expr.dtype.is_integer and isinstance(expr.value, int):
        return expr.value, expr.value
    return None


def _less(a: _Bounds, b: _Bounds) -> bool | None:
    if surely_less(a[1], b[0]):
        return True
    return False if surely_less(b[1] - 1, a[0]) else None


def _opposite(of: bool | None) -> bool | None:
    return None if of is None else not of


_COMPARISONS: dict[OpKind, Callable[[_Bounds, _Bounds], bool | None]] = {
    OpKind.LESS: _less,
    OpKind.GREATER: lambda a, b: _less(b, a),
    OpKind.GREATER_EQUAL: lambda a, b: _opposite(_less(a, b)),
    OpKind.LESS_EQUAL: lambda a, b: _opposite(_less(b, a)),
}
