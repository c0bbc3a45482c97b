"""Rough work of a program: CPU cycles of one block, and bytes moved by all of them."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.ir.op_table import OP_TABLE
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var

INLINE_CYCLES = 30_000
"""A CPU kernel of less work than this, about 10 us, runs in the calling thread: handing it out costs as much. Two cores
save half of the work; calibration found 0.7 us (an EPYC) to 5.8 us (a busy Xeon) for the hand-over."""
SIMD_LANES = 8
"""Elements a vector loop on a CPU handles at once."""
SECTOR_ELEMENTS = 8
"""Elements between neighbours from which each takes a memory sector of its own."""
STRIDED_CYCLES = 6
"""Cycles of an access whose neighbours in a vector loop are not neighbours in memory."""


def block_cycles(body: Sequence[k.Stmt]) -> int:
    """Cycles of one block's thread on a CPU."""
    return max(1, round(_cycles(body)))


def _cycles(body: Sequence[k.Stmt]) -> float:
    total = 0.0
    for stmt in body:
        if isinstance(stmt, k.For):
            lanes = SIMD_LANES if stmt.loop is k.Loop.SIMD else 1
            strided = _strided(stmt.body, stmt.var) * STRIDED_CYCLES * lanes if lanes > 1 else 0
            total += stmt.var.extent * (_cycles(stmt.body) + strided) / lanes + 2
        elif isinstance(stmt, k.If):
            total += max(_cycles(stmt.body), _cycles(stmt.orelse)) + 1
        elif isinstance(stmt, k.LoadVector | k.StoreVector):
            total += stmt.width
        elif isinstance(stmt, k.Let | k.Update | k.Assign | k.ArgUpdate | k.SetElement | k.Store):
            total += 1 + _expression(stmt.value)
    return total


def _strided(body: Sequence[k.Stmt], over: Var) -> int:
    """Loads and stores in a body whose neighbours in `over` are not neighbours in memory."""
    count = 0
    for stmt in body:
        if isinstance(stmt, k.Store):
            count += stmt.index.coefficient(over) not in (0, 1)
        if isinstance(stmt, k.Let | k.Store | k.SetElement | k.Update):
            count += sum(index.coefficient(over) not in (0, 1) for index in _loaded(stmt.value))
    return count


def _loaded(expr: k.Expr) -> list[Index]:
    if isinstance(expr, k.Load):
        return [expr.index]
    return [i for a in expr.args for i in _loaded(a)] if isinstance(expr, k.Apply) else []


def _expression(expr: k.Expr) -> float:
    if isinstance(expr, k.Apply):
        return OP_TABLE[expr.kind].cost + sum(map(_expression, expr.args))
    return 1 if isinstance(expr, k.Load | k.Element) else 0


def buffer_bytes(program: k.Program) -> int:
    """Bytes of all parameters, each moved once (twice where it is written and read)."""
    twice = (k.Mode.UPDATE, k.Mode.SCRATCH)
    return sum(b.size * b.dtype.size * (2 if b.mode in twice else 1) for b in program.parameters)


def array_bytes(program: k.Program) -> int:
    """Bytes of the arrays that one block works in: shared memory, and its threads' own. Phases follow each other in the
    same memory."""
    return max(_array_bytes(phase.body, program.threads) for phase in program.phases())


def requested_bytes(program: k.Program) -> int:
    """As array_bytes, if every phase had memory of its own."""
    return sum(_array_bytes(phase.body, program.threads) for phase in program.phases())


def _array_bytes(body: Sequence[k.Stmt], threads: int) -> int:
    total = 0
    for stmt in body:
        if isinstance(stmt, k.Array):
            total += stmt.size * stmt.dtype.compute.size * (1 if stmt.space is k.Space.SHARED else threads)
        elif isinstance(stmt, k.For):
            total += _array_bytes(stmt.body, threads)
        elif isinstance(stmt, k.If):
            total += _array_bytes(stmt.body, threads) + _array_bytes(stmt.orelse, threads)
    return total


def scattered_bytes(program: k.Program) -> int:
    """Bytes of parameters that neighbouring threads read far apart: a memory sector is moved for every element."""
    thread = Var(k.THREAD, program.threads)
    if program.threads == 1:
        return 0
    scattered = {name for name, index in _thread_loads(program.body)
                 if abs(index.value({thread: 1}) - index.value({})) >= SECTOR_ELEMENTS}
    return sum(b.size * b.dtype.size for b in program.parameters if b.name in scattered)


def _thread_loads(body: Sequence[k.Stmt]) -> list[tuple[str, Index]]:
    found: list[tuple[str, Index]] = []
    for stmt in body:
        if isinstance(stmt, k.For):
            found += _thread_loads(stmt.body)
        elif isinstance(stmt, k.If):
            found += _thread_loads(stmt.body) + _thread_loads(stmt.orelse)
        elif isinstance(stmt, k.Let) and isinstance(stmt.value, k.Load):
            found.append((stmt.value.buffer, stmt.value.index))
    return found


def total_cycles(program: k.Program) -> float:
    """Cycles of all threads of all blocks."""
    return float(program.grid) * program.threads * _cycles(program.body)
