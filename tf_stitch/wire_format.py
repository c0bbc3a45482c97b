"""Records of 64-bit words, declared once: encoded here, and read in C++ by a header made from the same declarations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

LEAST, MOST = -(1 << 63), (1 << 63) - 1
MOST_BYTES = 1 << 48
MOST_INT32 = (1 << 31) - 1


class Place(Protocol):
    """Where an operand lies (executable.BufferRef)."""

    @property
    def space(self) -> IntEnum: ...

    @property
    def index(self) -> int: ...


@dataclass(frozen=True)
class Field(ABC):
    """A member of a record.

    Attributes:
        doc: what a reader of the header has to know; "" if the name says it.
    """

    name: str
    doc: str = ""

    @property
    @abstractmethod
    def cpp_type(self) -> str:
        """The C++ type of the member."""

    @abstractmethod
    def cpp_read(self, what: str) -> str:
        """C++ that reads the member from `reader`, which throws that `what` is wrong."""

    @abstractmethod
    def words(self, value: Any) -> Iterable[int]:
        """The words of a value."""


@dataclass(frozen=True)
class Number(Field):
    """An integer in [low, high]."""

    low: int = 0
    high: int = MOST
    cpp: str = "std::int64_t"

    @property
    def cpp_type(self) -> str:
        return self.cpp

    def cpp_read(self, what: str) -> str:
        read = f'reader.Ranged("{what}", {self.low}, {self.high})'
        return read if self.cpp == "std::int64_t" else f"static_cast<{self.cpp}>({read})"

    def words(self, value: int) -> Iterable[int]:
        return [value]


@dataclass(frozen=True)
class Flag(Field):
    """0 or 1."""

    @property
    def cpp_type(self) -> str:
        return "bool"

    def cpp_read(self, what: str) -> str:
        return f'reader.Ranged("{what}", 0, 1) == 1'

    def words(self, value: bool) -> Iterable[int]:
        return [int(value)]


@dataclass(frozen=True)
class Choice(Field):
    """A member of an enumeration, which the header has, too; its numbers count from 0."""

    of: type[IntEnum] = IntEnum

    @property
    def cpp_type(self) -> str:
        return self.of.__name__

    def cpp_read(self, what: str) -> str:
        return f'static_cast<{self.of.__name__}>(reader.Ranged("{what}", 0, {len(self.of) - 1}))'

    def words(self, value: IntEnum) -> Iterable[int]:
        return [int(value)]


@dataclass(frozen=True)
class Pointer(Field):
    """An address, not null."""

    cpp: str = "const void*"

    @property
    def cpp_type(self) -> str:
        return self.cpp

    def cpp_read(self, what: str) -> str:
        return f'reader.template NextPointer<{self.cpp}>("{what}")'

    def words(self, value: int) -> Iterable[int]:
        return [value]


@dataclass(frozen=True)
class Numbers(Field):
    """This many integers, each in [low, high]."""

    low: int = LEAST
    high: int = MOST

    @property
    def cpp_type(self) -> str:
        return "std::vector<std::int64_t>"

    def cpp_read(self, what: str) -> str:
        limits = "" if (self.low, self.high) == (LEAST, MOST) else f", {self.low}, {self.high}"
        return f'reader.Numbers("{what}"{limits})'

    def words(self, value: Sequence[int]) -> Iterable[int]:
        return [len(value), *value]


@dataclass(frozen=True)
class OperandField(Field):
    """Where an operand lies: a space, and a number or an offset in it."""

    @property
    def cpp_type(self) -> str:
        return "Operand"

    def cpp_read(self, what: str) -> str:
        return "reader.NextOperand()"

    def words(self, value: Place) -> Iterable[int]:
        return [int(value.space), value.index]


@dataclass(frozen=True)
class OperandFields(Field):
    """This many operands."""

    @property
    def cpp_type(self) -> str:
        return "std::vector<Operand>"

    def cpp_read(self, what: str) -> str:
        return "reader.Operands()"

    def words(self, value: Sequence[Place]) -> Iterable[int]:
        return [len(value), *(word for place in value for word in (int(place.space), place.index))]


@dataclass(frozen=True)
class Record:
    """Words that belong together, in order.

    Attributes:
        name: of the C++ struct.
        doc: above the struct.
        ordered: the struct can be the key of a map.
    """

    name: str
    doc: str
    fields: tuple[Field, ...]
    ordered: bool = False

    def words(self, **values: Any) -> list[int]:
        """The words of a record with these members."""
        missing = {field.name for field in self.fields} ^ set(values)
        assert not missing, f"{self.name}: {sorted(missing)}"
        return [word for field in self.fields for word in field.words(values[field.name])]


@dataclass(frozen=True)
class Nested(Field):
    """A record in a record; values are mappings, or objects with its members as attributes."""

    of: Record = Record("", "", ())

    @property
    def cpp_type(self) -> str:
        return self.of.name

    def cpp_read(self, what: str) -> str:
        return f"{self.of.name}::Read(reader)"

    def words(self, value: Any) -> Iterable[int]:
        return self.of.words(**{field.name: getattr(value, field.name) for field in self.of.fields})
