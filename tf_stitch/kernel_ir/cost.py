"""Rough work of a program: CPU cycles of one block, and bytes moved by all of them."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.ir.op_table import OP_TABLE
from tf_stitch.kernel_ir import nodes as k

SIMD_LANES = 8
"""Elements a vector loop on a CPU handles at once."""


def block_cycles(body: Sequence[k.Stmt]) -> int:
    """Cycles of one block's thread on a CPU."""
    return max(1, round(_cycles(body)))


def _cycles(body: Sequence[k.Stmt]) -> float:
    total = 0.0
    for stmt in body:
        if isinstance(stmt, k.For):
            lanes = SIMD_LANES if stmt.loop is k.Loop.SIMD else 1
            total += stmt.var.extent * _cycles(stmt.body) / lanes + 2
        elif isinstance(stmt, k.If):
            total += max(_cycles(stmt.body), _cycles(stmt.orelse)) + 1
        elif isinstance(stmt, k.LoadVector | k.StoreVector):
            total += stmt.width
        elif isinstance(stmt, k.Let | k.Update | k.Assign | k.ArgUpdate | k.SetElement | k.Store):
            total += 1 + _expression(stmt.value)
    return total


def _expression(expr: k.Expr) -> float:
    if isinstance(expr, k.Apply):
        return OP_TABLE[expr.kind].cost + sum(map(_expression, expr.args))
    return 1 if isinstance(expr, k.Load | k.Element) else 0


def buffer_bytes(program: k.Program) -> int:
    """Bytes of all parameters, each moved once (twice where updated)."""
    return sum(b.size * b.dtype.size * (2 if b.mode is k.Mode.UPDATE else 1) for b in program.parameters)


def total_cycles(program: k.Program) -> float:
    """Cycles of all threads of all blocks."""
    return float(program.grid) * program.threads * _cycles(program.body)
