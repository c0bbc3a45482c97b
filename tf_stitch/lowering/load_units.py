"""Loads among the statements of a body: what one is, what it needs, and what it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from tf_stitch.ir.dtypes import DType
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index

Unit: TypeAlias = tuple[k.Stmt, ...]
"""A statement, or an array and the vector loaded into it."""


def units(body: Sequence[k.Stmt]) -> Iterator[Unit]:
    at = 0
    while at < len(body):
        stmt, following = body[at], body[at + 1] if at + 1 < len(body) else None
        pair = isinstance(stmt, k.Array) and isinstance(following, k.LoadVector) and following.array == stmt.name
        yield tuple(body[at:at + 1 + pair])
        at += 1 + pair


def load_of(unit: Unit) -> tuple[str, Index, int] | None:
    """The buffer, the first element and how many of a unit that is a load and nothing else."""
    stmt = unit[-1]
    if isinstance(stmt, k.LoadVector) and len(unit) == 2:
        return stmt.buffer, stmt.index, stmt.width
    if isinstance(stmt, k.Let) and isinstance(stmt.value, k.Load):
        return stmt.value.buffer, stmt.value.index, 1
    return None


def needed(unit: Unit) -> set[str]:
    """Variables that a load or an index is made of."""
    load = load_of(unit)
    index = load[1] if load is not None else getattr(unit[-1], "source", None)
    return {v.name for v in index.variables()} if isinstance(index, Index) else set()


def words(unit: Unit) -> int:
    """Registers that a load holds."""
    stmt = unit[0]
    if isinstance(stmt, k.Array):
        return stmt.nbytes // 4
    return max(stmt.value.dtype.compute.size // 4, 1) if isinstance(stmt, k.Let) else 0


def keeping(unit: Unit, count: int, dtypes: Mapping[str, DType]) -> k.Array:
    """An array for `count` of a load, vectors of halves as they lie in memory.

    Args:
        dtypes: of buffers.
    """
    first, load = unit[0], unit[-1]
    if isinstance(load, k.LoadVector):
        assert isinstance(first, k.Array)
        stored = dtypes[load.buffer]
        if stored.compute is not stored and load.width * stored.size % 4 == 0:
            return k.Array(f"{first.name}_ahead", stored, count * load.width, packed=True)
        return k.Array(f"{first.name}_ahead", first.dtype, count * load.width)
    assert isinstance(load, k.Let)
    return k.Array(f"{load.name}_ahead", load.value.dtype, count)
