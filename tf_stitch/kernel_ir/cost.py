"""Rough work of a program: CPU cycles of one block, and bytes of its buffers and arrays."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.ir.op_table import OP_TABLE
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.array_memory import placed_bytes
from tf_stitch.kernel_ir.index import Var
from tf_stitch.kernel_ir.walk import arrays, bodies, own_accesses

INLINE_CYCLES = 200_000
"""A CPU kernel of less work than this runs in the calling thread. It takes 20 us or so: vectors of 16 are faster than
these cycles say. Calibration found 0.7 us (an EPYC) to 5.8 us (a busy Xeon) for the hand-over, but the thread that is
woken takes 20 us more of a core that may be busy. `native/cpu/shared_loop.h` has the number for more threads."""
SIMD_LANES = 8
"""Elements a vector loop on a CPU handles at once."""
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
        elif isinstance(stmt, k.TileProduct):
            total += stmt.multiply_adds / SIMD_LANES
        elif isinstance(stmt, k.LoadVector | k.StoreVector):
            total += stmt.width
        elif isinstance(stmt, k.Let | k.Update | k.Assign | k.ArgUpdate | k.SetElement | k.Store
                        | k.Accumulate):
            total += 1 + _expression(stmt.value)
    return total


def _strided(body: Sequence[k.Stmt], over: Var) -> int:
    """Loads and stores of a body itself whose neighbours in `over` are not neighbours in memory."""
    single = (s for s in body if isinstance(s, k.Let | k.Store | k.SetElement | k.Update
                                               | k.Accumulate))
    return sum(a.index.coefficient(over) not in (0, 1) for stmt in single for a in own_accesses(stmt))


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
    same memory, and so do arrays that are not alive together."""
    return max(_allocated(phase) for phase in program.phases())


def requested_bytes(program: k.Program) -> int:
    """As array_bytes, if every array had memory of its own."""
    return sum(_array_bytes(a, program.threads) for phase in program.phases() for a in arrays(phase.body))


def shared_bytes(program: k.Program) -> int:
    """Bytes of a block's shared arrays; phases follow each other in the same memory."""
    return max(placed_bytes(arrays(phase.body, k.Space.SHARED)) for phase in program.phases())


def array_registers(program: k.Program) -> int:
    """32-bit registers of a thread's own arrays, were all of them alive together but those of other branches."""
    return max(array_words(phase.body) for phase in program.phases())


def array_words(body: Sequence[k.Stmt]) -> int:
    """As array_registers, of a part of a program."""
    words = 0
    for stmt in body:
        if isinstance(stmt, k.Array) and stmt.space is k.Space.LOCAL:
            words += stmt.nbytes // 4
        inside = [array_words(inner) for inner in bodies(stmt)]
        words += max(inside) if isinstance(stmt, k.If) else sum(inside)
    return words


def _allocated(phase: k.Program) -> int:
    found = list(arrays(phase.body))
    apart = sum(_array_bytes(a, phase.threads) for a in found if a.offset is None)
    return apart + sum(placed_bytes(a for a in found if a.space is space) for space in k.Space)


def _array_bytes(array: k.Array, threads: int) -> int:
    return array.nbytes * (1 if array.space is k.Space.SHARED else threads)
