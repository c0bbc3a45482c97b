"""A program with its sizes as plain numbers: those it was lowered for, or others that its kernel serves too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import reduce
from operator import mul
from typing import Any, cast

from tf_stitch.ir.sizes import Size
from tf_stitch.kernel_ir.nodes import Program


def instantiate(program: Program, values: Mapping[str, int] | None = None) -> Program:
    """The program for other sizes.

    Args:
        values: of atoms by name (see ir.sizes); an atom that is missing keeps its value.
    """
    return cast(Program, _plain(program, values or {}))


def _plain(x: Any, values: Mapping[str, int]) -> Any:
    if isinstance(x, Size):
        return sum(reduce(mul, (values.get(a.name, a.value) for a in m), c) for m, c in x.terms)
    if isinstance(x, tuple):
        return tuple(_plain(y, values) for y in x)
    if is_dataclass(x) and not isinstance(x, type):
        changed = {f.name: _plain(getattr(x, f.name), values) for f in fields(x)}
        same = all(changed[f.name] is getattr(x, f.name) for f in fields(x))
        return x if same else type(x)(**changed)
    return x
