"""What a loop that runs as one op does with the tensors around its body and its condition, as data.

The op runs two regions again and again: the condition and, as long as that gives true, the body. A role says for each
input of a region, and for each result of the op, where it comes from. Iterations are counted from 0.

A loop on a GPU is split: what numbers rows, and the condition if it can be, runs on the host beside the body, as a
body of its own, which carries its own values. Roles of the host name the op's inputs for the host, counted by
themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tf_stitch.errors import UnsupportedError

FORWARDS, BACKWARDS, _NUMBERED = 0, 1, 2


@dataclass(frozen=True)
class Row:
    """Which row of a tensor belongs to iteration i: row i, or the i-th from the end, or the one whose number is in an
    input of the body, of the host's if the loop is split (FORWARDS, BACKWARDS, or _NUMBERED and that input)."""

    way: int

    @property
    def number(self) -> int | None:
        """The input of the body that has the row's number; None if the iteration's number is enough."""
        return None if self.way < _NUMBERED else self.way - _NUMBERED

    def __str__(self) -> str:
        return {FORWARDS: "i", BACKWARDS: "-1-i"}.get(self.way, f"body.i{self.number}")


def row_numbered_by(body_input: int) -> Row:
    """The row whose number is in an input of the body."""
    return Row(_NUMBERED + body_input)


@dataclass(frozen=True)
class Fixed:
    """The op's input, in every iteration."""

    input: int

    def encode(self) -> list[int]:
        return [0, self.input]

    def __str__(self) -> str:
        return f"i{self.input}"


@dataclass(frozen=True)
class Carried:
    """The op's input in the first iteration, after that a result of the body's last run."""

    input: int
    output: int

    def encode(self) -> list[int]:
        return [1, self.input, self.output]

    def __str__(self) -> str:
        return f"i{self.input} then body.o{self.output}"


@dataclass(frozen=True)
class Element:
    """A row of the op's input, along its first axis."""

    input: int
    row: Row

    def encode(self) -> list[int]:
        return [2, self.input, self.row.way]

    def __str__(self) -> str:
        return f"i{self.input}[{self.row}]"


@dataclass(frozen=True)
class Last:
    """A result of the body's last run; the op's input if it never ran."""

    input: int
    output: int

    def encode(self) -> list[int]:
        return [0, self.input, self.output]

    def __str__(self) -> str:
        return f"body.o{self.output}, at first i{self.input}"


@dataclass(frozen=True)
class Stack:
    """A result of each of the body's runs, along a new first axis. Rows that nobody writes are zeros.

    Attributes:
        rows: the op's input, for the host if the loop is split, that says how many there are, a scalar of int32; None:
            as many as iterations.
    """

    output: int
    rows: int | None
    row: Row

    def encode(self) -> list[int]:
        return [1, self.output, -1 if self.rows is None else self.rows, self.row.way]

    def __str__(self) -> str:
        return f"rows {'' if self.rows is None else f'of i{self.rows}, '}[{self.row}] = body.o{self.output}"


@dataclass(frozen=True)
class Overlay:
    """A result of each of the body's runs in the place of a row of the op's input; rows that nobody writes are its."""

    output: int
    input: int
    row: Row

    def encode(self) -> list[int]:
        return [2, self.output, self.input, self.row.way]

    def __str__(self) -> str:
        return f"i{self.input} with [{self.row}] = body.o{self.output}"


InputRole: TypeAlias = Fixed | Carried | Element
OutputRole: TypeAlias = Last | Stack | Overlay


@dataclass(frozen=True)
class LoopRoles:
    """The roles of one body and of what is with it: of the body's inputs, of the condition's, of the op's results."""

    body: tuple[InputRole, ...] = ()
    condition: tuple[InputRole, ...] = ()
    outputs: tuple[OutputRole, ...] = ()

    def encode(self) -> list[int]:
        """As the native op reads them (native/loop/while_op.cc): each part after its length."""
        parts: tuple[Sequence[InputRole | OutputRole], ...] = (self.body, self.condition, self.outputs)
        return [word for part in parts for word in (len(part), *(w for role in part for w in role.encode()))]

    def __str__(self) -> str:
        lines = [f"{name}.i{k} = {role}" for name, part in (("body", self.body), ("condition", self.condition))
                 for k, role in enumerate(part)]
        return "\n".join([*lines, *(f"o{k} = {role}" for k, role in enumerate(self.outputs))])

    def check(self, numbering: LoopRoles) -> None:
        """Refuses rows whose number is itself in a row with a number, which the op would have to look up first.

        Args:
            numbering: of the body whose inputs number rows.

        Raises:
            UnsupportedError: there is one.
        """
        rows = [role.row for role in (*self.body, *self.outputs) if isinstance(role, Element | Stack | Overlay)]
        for number in (numbering.body[row.number] for row in rows if row.number is not None):
            if isinstance(number, Element) and number.row.number is not None:
                raise UnsupportedError("the number of an element is an element whose number is no counter")
