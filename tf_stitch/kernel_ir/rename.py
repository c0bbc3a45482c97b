"""A statement with its buffers under other names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tf_stitch.kernel_ir.walk import rebuilt

T = TypeVar("T")


def rename_buffers(stmt: T, names: Mapping[str, str]) -> T:
    """`stmt`, or a tuple of statements, with every buffer renamed."""
    return rebuilt(stmt, lambda field, x: names[x] if field == "buffer" else x)  # type: ignore[no-any-return]
