"""Rows that a launch will read are on their way while those that it depends on still run.

Keys and values of a decoder lie in a cache that steps of the same graph write to, so no kernel may read them before it
awaits dependencies. It may have them brought into the L2 cache: that is where all processors of a GPU see what others
write, so what is there is never stale.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tf_stitch.ir.symbolic_dims import SymbolicDim, ceil_div
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.attention import Rows, SingleQueryTiling
from tf_stitch.kernel_ir.dependencies import awaits_itself
from tf_stitch.kernel_ir.index import Var, var

LINE_BYTES = 128
"""What the L2 cache fetches for one hint."""
MOST_UNROLLED = 8
"""Hints of a thread for one operand that stand beside each other."""


def rows_before_dependencies(program: k.Program, room: float) -> k.Program:
    """The program of an attention whose blocks have one query each with hints for their keys and values before it
    awaits dependencies; others as they are.

    Args:
        room: bytes of the L2 cache for them. More would leave it again before it is read, and be fetched twice.
    """
    found = [stmt for stmt in program.body if isinstance(stmt, k.Attention)]
    if len(found) != 1 or not isinstance(found[0].tiling, SingleQueryTiling) or awaits_itself(program) or (
            program.alone or program.cluster > 1 or isinstance(program.grid, SymbolicDim)):
        return program
    shape, size = found[0].shape, {b.name: b.dtype.size for b in program.buffers}
    if shape.outer * shape.heads * shape.keys * (shape.depth + shape.width) * size[found[0].k] > room:
        return program
    hints = _hints(found[0], program)
    return replace(program, body=(*hints, k.AwaitDependencies(), *program.body))


def _hints(stmt: k.Attention, program: k.Program) -> Iterator[k.For]:
    shape = stmt.shape
    block, thread = var(Var(k.BLOCK, program.grid)), var(Var(k.THREAD, program.threads))
    matrix = block // shape.queries
    size = {b.name: b.dtype.size for b in program.buffers}
    operands: tuple[tuple[str, Rows, int], ...] = (stmt.k, shape.k, shape.depth), (stmt.v, shape.v, shape.width)
    for name, rows, columns in operands:
        each = LINE_BYTES // size[name]
        lines = ceil_div(columns, each)
        line, item = Var(f"{name}_line", shape.keys * lines), Var("item", ceil_div(shape.keys * lines, program.threads))
        place = var(line)
        first = (matrix // shape.heads * rows.outer + matrix % shape.heads * rows.head + rows.offset
                 + place // lines * rows.row + place % lines * each)
        loop = k.Loop.UNROLL if item.extent <= MOST_UNROLLED else k.Loop.SERIAL
        yield k.For(item, (k.LetIndex(line, var(item) * program.threads + thread, line.extent - 1),
                           k.Prefetch(name, first, 1)), loop)
