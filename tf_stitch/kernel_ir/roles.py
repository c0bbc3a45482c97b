"""What the fields of statements hold. A statement declares it once; what walks, checks and counts derives from that."""

from __future__ import annotations

from enum import Enum
from typing import Any, get_type_hints


class Role(Enum):
    """What a field of a statement is to it."""

    OPERAND = "an expression or index that the statement evaluates itself, or None"
    BODY = "statements inside it"
    READS = "a buffer that it reads, from its field `index` on if it has that, or \"\""
    WRITES = "a buffer that it writes, likewise"
    HINTS = "a buffer that it reads nothing of, but may touch"
    ARRAY = "an array that it reads or writes itself, or \"\""
    LET = "an immutable scalar that it declares"
    VAR = "an accumulator that it declares"
    SETS = "an accumulator that it changes"
    BARRIER = "a barrier of the block that it waits at"

    __hash__ = object.__hash__  # Enum's own is Python, and every walk asks for it at every statement


class Where(Enum):
    """Where a statement may stand."""

    ANYWHERE = "wherever its operands are declared"
    TOGETHER = "where every thread of the block comes to it"
    TOP_OF_BLOCK = "at the top of a program or of a grid loop's body"
    TOP_OF_PROGRAM = "at the top of a program"


_NAMES: dict[type, dict[Role, tuple[str, ...]]] = {}


def names_of(stmt: object, role: Role) -> tuple[str, ...]:
    """The fields of a statement that have a role, in order: those annotated with it."""
    return fields_of(type(stmt), role)


def fields_of(kind: type, role: Role) -> tuple[str, ...]:
    """The fields of a kind of statement that have a role, in order."""
    known = _NAMES.get(kind)
    if known is None:
        hints = get_type_hints(kind, include_extras=True).items()
        known = _NAMES[kind] = {one: tuple(name for name, hint in hints if one in getattr(hint, "__metadata__", ()))
                                for one in Role}
    return known[role]


def held(stmt: object, role: Role) -> list[Any]:
    """What the fields of a statement that have a role hold."""
    names = fields_of(type(stmt), role)
    return [getattr(stmt, name) for name in names] if names else []
