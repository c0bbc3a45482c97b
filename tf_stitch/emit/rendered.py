"""Launches of programs, and a kernel as source that is the same for every shape it serves, named after its own text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tf_stitch.emit.comments import code_of

SELF = "stitch_self"
"""Stands for a function's own name until the text is known."""


@dataclass(frozen=True)
class Packed:
    """One launch: members run side by side, member i on its own range of blocks. All have equal `threads`; one whose
    blocks wait for each other is alone.

    Attributes:
        members: indices into the program list, in argument order.
        resident: blocks of it that a processor is to hold, a bound on registers; 0: the compiler's choice (see
            kernel_ir.occupancy).
    """

    name: str
    members: tuple[int, ...]
    resident: int = 0


@dataclass(frozen=True)
class Rendered:
    """One launch.

    Attributes:
        symbol: equal exactly for equal code (comments aside).
        parts: functions of the source by name, callees first.
        sizes: the numbers to pass after the pointers, for the shape that was lowered.
    """

    symbol: str
    parts: Mapping[str, str]
    sizes: tuple[int, ...]


def named(stem: str, lines: Iterable[str]) -> tuple[str, str]:
    """Name and text of a function written under the name SELF; comments are no part of what is named."""
    text = "\n".join(lines)
    name = f"{stem}_{hashlib.sha256(code_of(text).encode()).hexdigest()[:16]}"
    return name, f"{text.replace(SELF, name)}\n"
