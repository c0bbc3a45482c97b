"""Matmuls whose second operand is on its way while the launches that theirs depends on still run."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from tf_stitch.ir.symbolic_dims import SymbolicDim, ceil_div
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.dependencies import awaits_itself
from tf_stitch.kernel_ir.index import Var, var
from tf_stitch.kernel_ir.walk import accesses
from tf_stitch.lowering.rows_before_dependencies import LINE_BYTES


def prefetch_before_dependencies(program: k.Program, unwritten: Collection[str]) -> k.Program:
    """The program of a matmul with copies of b's first stages before it awaits dependencies; others as they are.

    Args:
        unwritten: buffers that no launch writes which the program's may depend on.
    """
    at = [i for i, stmt in enumerate(program.body) if isinstance(stmt, k.Matmul)]
    if len(at) != 1 or program.looped or awaits_itself(program) or isinstance(program.grid, SymbolicDim):
        return program
    before, matmul, behind = program.body[:at[0]], program.body[at[0]], program.body[at[0] + 1:]
    assert isinstance(matmul, k.Matmul)
    if matmul.b not in unwritten or not all(isinstance(s, k.Array | k.Comment) for s in before):
        return program
    if matmul.tiling.pair:  # its copies go to memory of other blocks, too
        return program
    hints = _hints(program, matmul, unwritten)
    prefetch = k.MatmulPrefetch(matmul.shape, matmul.tiling, matmul.b, matmul.tiles)
    return replace(program, body=(*before, *hints, prefetch, k.AwaitDependencies(), replace(matmul, ahead=True),
                                  *behind))


def _hints(program: k.Program, matmul: k.Matmul, unwritten: Collection[str]) -> Iterator[k.Stmt]:
    """For what is read when results are finished, as a bias is: it comes to the cache that processors share."""
    read = {access.buffer for access in accesses(matmul.finish) if not access.write} & set(unwritten)
    for buffer in (b for b in program.buffers if b.name in read):
        each = LINE_BYTES // buffer.dtype.size
        lines = ceil_div(buffer.size, each)
        if lines <= program.threads:  # of more, a block reads a part
            line = Var(f"{buffer.name}_line", lines)
            yield k.LetIndex(line, var(Var(k.THREAD, program.threads)), lines - 1)
            yield k.Prefetch(buffer.name, var(line) * each, 1)
