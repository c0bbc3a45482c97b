"""A program with its sizes as plain numbers: those it was lowered for, or others that its kernel serves too."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import mul
from typing import Any, cast

from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.kernel_ir.walk import rebuilt


def instantiate(program: Program, values: Mapping[str, int] | None = None) -> Program:
    """The program for other sizes.

    Args:
        values: of atoms by name (see ir.symbolic_dims); an atom that is missing keeps its value.
    """
    known = values or {}

    def plain(_: str, x: Any) -> Any:
        if not isinstance(x, SymbolicDim):
            return x
        return sum(reduce(mul, (known.get(a.name, a.value) for a in m), c) for m, c in x.terms)

    return cast(Program, rebuilt(program, plain))
