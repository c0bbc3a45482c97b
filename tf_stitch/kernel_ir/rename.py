"""A statement with its buffers under other names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

T = TypeVar("T")


def rename_buffers(stmt: T, names: Mapping[str, str]) -> T:
    """`stmt`, or a tuple of statements, with every buffer renamed."""
    return _renamed(stmt, names)  # type: ignore[no-any-return]


def _renamed(x: Any, names: Mapping[str, str]) -> Any:
    if isinstance(x, tuple):
        return tuple(_renamed(y, names) for y in x)
    if not is_dataclass(x) or isinstance(x, type):
        return x
    changed = {f.name: names[getattr(x, f.name)] if f.name == "buffer" else _renamed(getattr(x, f.name), names)
               for f in fields(x)}
    same = all(changed[f.name] is getattr(x, f.name) for f in fields(x))
    return x if same else type(x)(**changed)
