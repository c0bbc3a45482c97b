"""Which loops of a kernel program compilers make vector code of, and what loops load by vectors."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var
from tf_stitch.kernel_ir.walk import evaluated, own_accesses, statements

VECTOR_BYTES = 32
"""Of a CPU's vectors, at least. Some have 16, and twice as many additions of a sum that wait for each other."""

_LIBRARY = frozenset({
    OpKind.SIN, OpKind.COS, OpKind.TAN, OpKind.ASIN, OpKind.ACOS, OpKind.ATAN, OpKind.SINH, OpKind.COSH, OpKind.ASINH,
    OpKind.ACOSH, OpKind.ATANH, OpKind.ATAN2, OpKind.LGAMMA, OpKind.POW, OpKind.FLOOR_MOD, OpKind.TRUNC_MOD})
"""Functions of the C library, one element at a time."""
_LIBRARY_OF_DOUBLES = frozenset({
    OpKind.EXP, OpKind.EXPM1, OpKind.LOG, OpKind.LOG1P, OpKind.TANH, OpKind.SIGMOID, OpKind.ERF, OpKind.ERFC})
_DIVISIONS = frozenset({OpKind.DIV, OpKind.FLOOR_DIV, OpKind.FLOOR_MOD, OpKind.TRUNC_MOD})


def vectorises(body: Sequence[k.Stmt], over: Var) -> bool:
    """Whether compilers make vector code of a loop with that body. They ask conditions that stay the same outside."""
    for stmt in body:
        if isinstance(stmt, k.For | k.ArgUpdate | k.Fail | k.Array):
            return False
        if isinstance(stmt, k.If):
            asked = stmt.condition.index if isinstance(stmt.condition, k.InRange) else None
            if asked is None or over in asked.variables() or not vectorises((*stmt.body, *stmt.orelse), over):
                return False
    return True


def sum_lanes(loop: k.For, dtype: DType) -> int:
    """Neighbouring iterations of a loop on a CPU that add to an accumulator at once, at least; 1 where it is not sure
    that compilers make vector code of it."""
    if loop.loop is not k.Loop.SIMD or any(isinstance(s, k.For | k.If | k.ArgUpdate | k.Fail) for s in loop.body):
        return 1
    along = {loop.var}
    for stmt in loop.body:
        if isinstance(stmt, k.LetIndex):
            if not isinstance(stmt.source, Index) or stmt.limit is not None or any(
                    stmt.source.coefficient(v) not in (0, 1) for v in along):
                return 1
            along.add(stmt.var)
        if not all(map(_has_vectors, evaluated(stmt))) or any(
                a.index.coefficient(v) not in (0, 1) for a in own_accesses(stmt) for v in along):
            return 1
    return VECTOR_BYTES // dtype.size


def _has_vectors(expr: k.Expr) -> bool:
    """Whether an operation is done on vectors, its operands aside."""
    if not isinstance(expr, k.Apply):
        return not isinstance(expr, k.FromIndex)
    of = {e.dtype.compute for e in expr.args}
    if expr.kind in _LIBRARY or {DType.I64, DType.U64} & {*of, expr.dtype}:
        return False
    return not ((DType.F64 in of and expr.kind in _LIBRARY_OF_DOUBLES)
                or (expr.kind in _DIVISIONS and not any(d.is_float for d in of)))


def loaded_together(loop: k.For) -> int:
    """Elements of a tensor that a GPU's thread has under way in a loop, if that says so (For.together); else 1."""
    if loop.together <= k.TOGETHER:
        return 1
    return loop.together * max((s.width for s in statements(loop.body) if isinstance(s, k.LoadVector)), default=1)
