"""What statements are made of, by what they declare (roles) and what expressions have.

Folds that need to know where a statement stands (costs, scopes, emission) recurse over `bodies` themselves; all else
iterates over what is here. Everything is in program order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import chain
from typing import Any

from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, constant
from tf_stitch.kernel_ir.roles import Role, held, names_of


@dataclass(frozen=True)
class BufferAccess:
    """One load or store of a buffer, vectors by their first element."""

    buffer: str
    index: Index
    write: bool


def bodies(stmt: k.Stmt) -> tuple[tuple[k.Stmt, ...], ...]:
    """The bodies inside a statement."""
    names = names_of(stmt, Role.BODY)
    return tuple([getattr(stmt, name) for name in names]) if names else ()


def statements(body: Sequence[k.Stmt]) -> Iterator[k.Stmt]:
    """Every statement, one that holds others before them."""
    stack = [iter(body)]
    while stack:  # no generators inside generators: each statement would pass through as many as it is deep
        for stmt in stack[-1]:
            yield stmt
            inner = bodies(stmt)
            if inner:
                stack.append(chain.from_iterable(inner))
                break
        else:
            stack.pop()


def operands(stmt: k.Stmt) -> Iterator[k.Expr | Index]:
    """Expressions and indices that a statement evaluates itself."""
    return (part for part in held(stmt, Role.OPERAND) if part is not None)


def expressions(expr: k.Expr) -> Iterator[k.Expr]:
    """An expression and all it is made of."""
    yield expr
    if isinstance(expr, k.Apply):
        for arg in expr.args:
            yield from expressions(arg)


def evaluated(stmt: k.Stmt) -> Iterator[k.Expr]:
    """All expressions that a statement evaluates itself."""
    for part in operands(stmt):
        if not isinstance(part, Index):
            yield from expressions(part)


def indices(stmt: k.Stmt) -> Iterator[Index]:
    """All indices that a statement evaluates itself."""
    yield from (part for part in operands(stmt) if isinstance(part, Index))
    yield from (e.index for e in evaluated(stmt) if isinstance(e, k.Load | k.Element | k.FromIndex | k.InRange))


def own_accesses(stmt: k.Stmt) -> Iterator[BufferAccess]:
    """Accesses of a statement without those of its bodies."""
    yield from (BufferAccess(e.buffer, e.index, False) for e in evaluated(stmt) if isinstance(e, k.Load))
    for role in (Role.READS, Role.WRITES):
        for name in filter(None, held(stmt, role)):
            # An attention, or a matmul, accesses many elements of each; here the first.
            yield BufferAccess(name, getattr(stmt, "index", constant(0)), role is Role.WRITES)


def accesses(body: Sequence[k.Stmt]) -> Iterator[BufferAccess]:
    """Every access; of a statement its reads before what it writes."""
    for stmt in statements(body):
        yield from own_accesses(stmt)


def arrays(body: Sequence[k.Stmt], space: k.Space | None = None) -> Iterator[k.Array]:
    """Every array that is declared, or those of one space."""
    return (s for s in statements(body) if isinstance(s, k.Array) and space in (None, s.space))


def arrays_touched(stmt: k.Stmt) -> Iterator[str]:
    """Names of the arrays that a statement reads or writes itself."""
    yield from (e.array for e in evaluated(stmt) if isinstance(e, k.Element))
    yield from filter(None, held(stmt, Role.ARRAY))
    if isinstance(stmt, k.Array) and stmt.init is not None:
        yield stmt.name


def rewritten(body: Sequence[k.Stmt], change: Callable[[k.Stmt], k.Stmt]) -> tuple[k.Stmt, ...]:
    """The body with every statement changed, those inside another first."""
    return expanded(body, lambda stmt: (change(stmt),))


def expanded(body: Sequence[k.Stmt], change: Callable[[k.Stmt], Sequence[k.Stmt]]) -> tuple[k.Stmt, ...]:
    """As `rewritten`, any number of statements in the place of each."""
    out: list[k.Stmt] = []
    for stmt in body:
        inner = {name: expanded(getattr(stmt, name), change) for name in names_of(stmt, Role.BODY)}
        changed: Any = replace(stmt, **inner) if inner else stmt
        out += change(changed)
    return tuple(out)


def rebuilt(x: Any, change: Callable[[str, Any], Any]) -> Any:
    """`x` (a statement, an expression, a program, or a tuple of such) with its leaves replaced.

    Args:
        change: (name of the field that holds it, leaf) -> what stands there instead; the leaf itself changes nothing.
    """
    return _rebuilt("", x, change)


def _rebuilt(name: str, x: Any, change: Callable[[str, Any], Any]) -> Any:
    if isinstance(x, tuple):
        return tuple(_rebuilt(name, y, change) for y in x)
    if not is_dataclass(x) or isinstance(x, type):
        return change(name, x)
    changed = {f.name: _rebuilt(f.name, getattr(x, f.name), change) for f in fields(x)}
    same = all(changed[f.name] is getattr(x, f.name) for f in fields(x))
    return x if same else type(x)(**changed)
