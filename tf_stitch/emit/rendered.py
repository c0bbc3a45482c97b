"""Launches of programs as functions of source, which a compiler gets all at once or a unit at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tf_stitch.emit.comments import code_of

SELF = "stitch_self"
"""Stands for a function's own name until the text is known."""


@dataclass(frozen=True)
class Packed:
    """One launch: members run side by side, member i on its own range of blocks. All have equal `threads`, and clusters
    of one size, or none; one whose blocks wait for each other is alone.

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
        symbol: where kernels serve several shapes, equal exactly for equal code (comments aside).
        parts: functions of the source by name, callees first.
        sizes: the numbers to pass after the pointers, for the shape that was lowered.
    """

    symbol: str
    parts: Mapping[str, str]
    sizes: tuple[int, ...]


def parts_of(kernels: Iterable[Rendered]) -> dict[str, str]:
    """The functions of launches: first those that they call, once each, and then their own."""
    kernels = list(kernels)
    called = {name: text for kernel in kernels for name, text in kernel.parts.items() if name != kernel.symbol}
    return called | {kernel.symbol: kernel.parts[kernel.symbol] for kernel in kernels}


def units(kernels: Collection[Rendered], most: int) -> Iterator[list[Rendered]]:
    """Launches, in order, that a compiler gets together: as many as have `most` characters with what they call, and
    one that has more alone."""
    unit, size, held = list[Rendered](), 0, set[str]()
    for kernel in kernels:
        own = sum(len(text) for name, text in kernel.parts.items() if name not in held)
        if unit and size + own > most:
            yield unit
            unit, size, held = [], 0, set()
            own = sum(map(len, kernel.parts.values()))
        unit.append(kernel)
        size += own
        held.update(kernel.parts)
    if unit:
        yield unit


def named(stem: str, lines: Iterable[str]) -> tuple[str, str]:
    """Name and text of a function written under the name SELF; comments are no part of what is named."""
    text = "\n".join(lines)
    name = f"{stem}_{hashlib.sha256(code_of(text).encode()).hexdigest()[:16]}"
    return name, f"{text.replace(SELF, name)}\n"
