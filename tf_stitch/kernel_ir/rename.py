"""Other names: of the buffers of a statement, of the user's nodes that a program notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar, get_args

from tf_stitch.kernel_ir.program import Program
from tf_stitch.kernel_ir.roles import Role, fields_of
from tf_stitch.kernel_ir.statements import Stmt
from tf_stitch.kernel_ir.walk import rebuilt

T = TypeVar("T")

BUFFERS = {"buffer", *(name for kind in get_args(Stmt) for role in (Role.READS, Role.WRITES, Role.HINTS)
                       for name in fields_of(kind, role))}
"""Fields of statements and expressions that name one."""


def renamed(x: T, buffers: Mapping[str, str], noted: Mapping[str, str]) -> T:
    """`x`, or a tuple of such, with buffers and notes that have another name."""
    names = {**dict.fromkeys(BUFFERS, buffers), "note": noted, "notes": noted}

    def name(field: str, leaf: Any) -> Any:
        return names[field].get(leaf, leaf) if field in names and isinstance(leaf, str) else leaf

    return rebuilt(x, name)  # type: ignore[no-any-return]


def in_users_names(program: Program) -> Program:
    """The program with notes that name the user's nodes it is for (see Program.noted)."""
    return replace(renamed(program, {}, program.noted), noted={}) if program.noted else program
