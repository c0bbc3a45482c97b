"""What all statements of the kernel IR share: the base, and names for the roles of their fields."""

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
