"""What all statements of the kernel IR share: the base, and names for the roles of their fields.

Loops, branches, barriers and values are the language: their classes are in statements.py and value_statements.py, and
what walks programs has a table of rules for them (by_type.py). A statement about whole tiles is one class in a file of
its own (tile_statement.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeAlias

from tf_stitch.kernel_ir.expressions import Expr
from tf_stitch.kernel_ir.index import Index
from tf_stitch.kernel_ir.roles import Role, Where

Value: TypeAlias = Annotated[Expr, Role.OPERAND]
At: TypeAlias = Annotated[Index, Role.OPERAND]
Reads: TypeAlias = Annotated[str, Role.READS]
Writes: TypeAlias = Annotated[str, Role.WRITES]
Hints: TypeAlias = Annotated[str, Role.HINTS]
ArrayName: TypeAlias = Annotated[str, Role.ARRAY]
LetName: TypeAlias = Annotated[str, Role.LET]
VarName: TypeAlias = Annotated[str, Role.VAR]
Sets: TypeAlias = Annotated[str, Role.SETS]


@dataclass(frozen=True)
class Statement:
    """Base of all. Fields say what they hold by their roles; those without are plain values."""

    where: ClassVar[Where] = Where.ANYWHERE


Stmt: TypeAlias = Statement
Body: TypeAlias = Annotated[tuple[Statement, ...], Role.BODY]


def kinds_of(base: type) -> tuple[type, ...]:
    """Every kind of statement below a base, but for those that are bases themselves."""
    below: list[type] = base.__subclasses__()
    return tuple(kind for one in below for kind in kinds_of(one)) if below else (base,)
