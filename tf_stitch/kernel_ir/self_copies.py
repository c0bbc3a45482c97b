"""Programs without the stores of what lies there already: a scatter to a variable, in place, copies nothing first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index
from tf_stitch.kernel_ir.program import Program

_WITHOUT_EFFECT = (k.Let, k.LetIndex, k.Comment, k.Array, k.LoadFence, k.AwaitDependencies, k.Accumulator)


def without_self_copies(program: Program, memory: Collection[str]) -> Program:
    """The program without stores to `memory`, buffers that are one, of what was loaded from there at the same index;
    and without the loops that did nothing else, and the grid barriers that waited for these; itself if it has none."""
    body = _kept(program.body, memory, {})
    if _same(body, program.body):
        return program
    if not program.looped:
        return replace(program, body=tuple(body))
    while body and isinstance(body[0], k.Comment | k.GridBarrier):
        body.pop(0)
    only = body[0] if len(body) == 1 else None
    if isinstance(only, k.GridLoop) and not only.backwards:
        return replace(program, grid=only.blocks, body=only.body, resident=0)
    return replace(program, body=tuple(body))


def _kept(body: Sequence[k.Stmt], memory: Collection[str], known: dict[str, Index]) -> list[k.Stmt]:
    """
    Args:
        known: scalars that were loaded from the memory, and where.
    """
    known = dict(known)
    found: list[k.Stmt] = []
    for stmt in body:
        if isinstance(stmt, k.Let) and isinstance(stmt.value, k.Load) and stmt.value.buffer in memory:
            known[stmt.name] = stmt.value.index
        if isinstance(stmt, k.Store) and stmt.buffer in memory and _loaded(stmt.value, memory, known) == stmt.index:
            continue
        if isinstance(stmt, k.For | k.If | k.GridLoop):
            inner = _kept(stmt.body, memory, known)
            if len(inner) < len(stmt.body) and all(isinstance(s, _WITHOUT_EFFECT) for s in inner):
                continue
            stmt = stmt if _same(inner, stmt.body) else replace(stmt, body=tuple(inner))
        found.append(stmt)
    return found


def _same(body: Sequence[k.Stmt], before: Sequence[k.Stmt]) -> bool:
    return len(body) == len(before) and all(a is b for a, b in zip(body, before, strict=True))


def _loaded(value: k.Expr, memory: Collection[str], known: dict[str, Index]) -> Index | None:
    if isinstance(value, k.Load):
        return value.index if value.buffer in memory else None
    return known.get(value.name) if isinstance(value, k.Local) else None
