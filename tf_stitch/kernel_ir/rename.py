"""Other names: of the buffers of a statement, of the user's nodes that a program notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from tf_stitch.kernel_ir.program import Program
from tf_stitch.kernel_ir.walk import rebuilt

T = TypeVar("T")


def rename_buffers(stmt: T, names: Mapping[str, str]) -> T:
    """`stmt`, or a tuple of statements, with every buffer renamed."""
    return rebuilt(stmt, lambda field, x: names[x] if field == "buffer" else x)  # type: ignore[no-any-return]


def in_users_names(program: Program) -> Program:
    """The program with notes that name the user's nodes it is for (see Program.noted)."""
    noted = program.noted
    if not noted:
        return program
    own: Program = rebuilt(program, lambda field, x: noted.get(x, x) if field in ("note", "notes") else x)
    return replace(own, noted={})
