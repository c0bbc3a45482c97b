"""Other names: of the buffers of a statement, of the user's nodes that a program notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from tf_stitch.kernel_ir.program import Program
from tf_stitch.kernel_ir.roles import Role, fields_of
from tf_stitch.kernel_ir.statement import Statement, kinds_of
from tf_stitch.kernel_ir.walk import rebuilt

T = TypeVar("T")


@cache
def buffer_fields() -> frozenset[str]:
    """Names of the fields of statements and expressions that name a buffer."""
    roles = (Role.READS, Role.WRITES, Role.HINTS)
    return frozenset({"buffer", *(name for kind in kinds_of(Statement) for role in roles
                                  for name in fields_of(kind, role))})


def renamed(x: T, buffers: Mapping[str, str], noted: Mapping[str, str]) -> T:
    """`x`, or a tuple of such, with buffers and notes that have another name."""
    names = {**dict.fromkeys(buffer_fields(), buffers), "note": noted, "notes": noted}

    def name(field: str, leaf: Any) -> Any:
        return names[field].get(leaf, leaf) if field in names and isinstance(leaf, str) else leaf

    return rebuilt(x, name)  # type: ignore[no-any-return]


def in_users_names(program: Program) -> Program:
    """The program with notes that name the user's nodes it is for (see Program.noted)."""
    return replace(renamed(program, {}, program.noted), noted={}) if program.noted else program
