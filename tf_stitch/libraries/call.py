"""What every call of a library can be asked, and every library of a kind of calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from tf_stitch.device.profile import DeviceProfile
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.nodes import Mode
from tf_stitch.wire_format import Record


class FusedNodes(Protocol):
    """What one call computes: its root, and what follows that until the result is stored."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """From the root to the result, operands first."""

    @property
    def result(self) -> Node: ...

    @property
    def added(self) -> tuple[Node, ...]:
        """Operands beside those of the root."""


@dataclass(frozen=True)
class OneNode:
    """A root with nothing fused to it."""

    result: Node

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (self.result,)

    @property
    def added(self) -> tuple[Node, ...]:
        return ()


class LibraryCall(ABC):
    """A call as data: sizes, layouts, what it computes. Its arguments are operands and, last, the results.

    Attributes:
        record: its words in an executable; members come from attributes of the same names, or from `members`.
    """

    record: ClassVar[Record]

    @abstractmethod
    def operand_bytes(self) -> list[int]:
        """Bytes of each argument, from its beginning to the end of what is read or written."""

    @abstractmethod
    def at_hand(self) -> LibraryCall:
        """The call with plain numbers for sizes that change."""

    @abstractmethod
    def too_large(self) -> str:
        """Why the library cannot count so far; "" if it can. Sizes are at hand."""

    @abstractmethod
    def members(self) -> Mapping[str, Any]:
        """The members of `record`."""

    @abstractmethod
    def reference(self, arguments: Sequence[NDArray[np.uint8]]) -> None:
        """The call by NumPy, on the bytes of its arguments: for tests and where there is no native op."""

    @property
    @abstractmethod
    def domain(self) -> tuple[int, int]:
        """Rows and columns of the result, for reports."""

    @property
    def needs(self) -> str:
        """The member of a DeviceSpec without which regions are compiled without such calls, which a library need not
        have a kernel for; "" if there is no other way."""
        return ""

    @property
    def nbytes(self) -> int:
        """Bytes that are read and written, each once."""
        return sum(self.operand_bytes())


@dataclass(frozen=True)
class BoundCall:
    """A call and the values of a graph that it reads and writes.

    Attributes:
        nodes: what it computes, operands first.
        arguments: in the call's order.
    """

    call: LibraryCall
    nodes: tuple[Node, ...]
    arguments: tuple[tuple[Node, Mode], ...]


def in_memory(node: Node, stored: Collection[Node]) -> Node:
    """What lies in memory of an operand: itself, or what it is a view of.

    Args:
        stored: values that kernels and calls write.
    """
    while node.kind is OpKind.RESHAPE and node not in stored:
        node = node.operands[0]
    return node


class Library(ABC):
    """Calls of one kind: which nodes they compute, and at what cost.

    Attributes:
        name: of the call's code in an executable.
        record: words of each call.
        sources: of the native op that run it, below native/; those for special processors last.
        epilogue_types: of roots whose calls compute a bias, a sum and a rectifier that follow.
        epilogue_us: microseconds that they take for it beyond what they read.
    """

    name: str
    record: Record
    sources: tuple[str, ...]
    epilogue_types: tuple[DType, ...] = ()
    epilogue_us: float = 0.0

    def on(self, device: DeviceSpec) -> Library:
        """The calls of this library that regions of a device may hold."""
        return self

    @abstractmethod
    def is_root(self, node: Node) -> bool:
        """Whether a call can compute this node; what follows it may be fused."""

    @abstractmethod
    def extensions(self, root: Node, users: dict[Node, list[Node]], wanted: frozenset[Node]) -> Iterator[FusedNodes]:
        """What one call can compute beyond a static root, each with all of the one before it.

        Args:
            users: of every node.
            wanted: nodes whose values are needed by themselves.
        """

    @abstractmethod
    def match(self, nodes: Sequence[Node]) -> FusedNodes | None:
        """These nodes (operands first, with all views between them) as one call; None if they are not."""

    def reads(self, path: Sequence[Node]) -> bool:
        """Whether calls read an operand as it lies in the memory that it is a view of.

        Args:
            path: static VIEWS (ir.strided_view) that lead from there to the operand, at least one.
        """
        return all(view.kind is OpKind.RESHAPE for view in path)

    @abstractmethod
    def bind(self, fused: Any, stored: Collection[Node]) -> BoundCall:
        """The call of what `match` found.

        Args:
            stored: values that kernels and calls write: of an operand and what it is a view of, the first that exists
                in memory is read.
        """

    @abstractmethod
    def measured_us(self, root: Node, profile: DeviceProfile) -> float | None:
        """Microseconds of a static root alone on the device; None where it was not measured."""
