"""The base of statements about whole tiles, which all threads of a block carry out together: attention, matmuls.

Such a statement is one class in one file: its fields, what holds of it, what it costs, what it means, and how it is
printed. What walks programs (verifier, work counter, interpreter, printer) asks it by the methods here. Its CUDA C++
stands beside its template, in a file of emit/ (CudaKernel.rules).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from numpy.typing import NDArray

from tf_stitch.kernel_ir.program import Program
from tf_stitch.kernel_ir.roles import Where
from tf_stitch.kernel_ir.scope import Scope
from tf_stitch.kernel_ir.statement import Statement
from tf_stitch.kernel_ir.tile_work import TileWork

Block: TypeAlias = Callable[[Sequence[Statement], str], Iterator[str]]
"""Prints the lines of a body behind an indent."""


class TileVerifier(Protocol):
    """The verifier, at a statement.

    Attributes:
        threads: of a block of this phase.
    """

    program: Program
    threads: int

    def body(self, body: Sequence[Statement], scope: Scope, parted: bool) -> None:
        """Verifies a body.

        Args:
            parted: not all threads of a block come to it together.
        """


class TileBlock(Protocol):
    """A block that the interpreter runs, where all of its threads are together.

    Attributes:
        block: its number.
        threads: how many it has.
        indices, scalars, arrays: values by name, of each thread.
        sizes: elements of arrays.
    """

    block: int
    threads: int
    indices: list[dict[str, int]]
    scalars: list[dict[str, Any]]
    arrays: list[dict[str, dict[int, Any]]]
    sizes: dict[str, int]

    def run_body(self, body: Sequence[Statement], active: list[int]) -> None:
        """Runs statements by these threads."""

    def load_all(self, name: str, indices: Sequence[int]) -> NDArray[Any]:
        """Elements of a buffer, in its compute type; bounds and races are checked."""

    def elements(self, array: str, indices: Sequence[int]) -> NDArray[Any]:
        """Elements of an array of the block's one thread, all of which were written."""

    def set_elements(self, array: str, indices: Sequence[int], values: NDArray[Any]) -> None:
        """Sets them."""

    def store_all(self, name: str, indices: Sequence[int], values: Sequence[Any] | NDArray[Any]) -> None:
        """Stores elements of a buffer, rounded to its type, checked likewise."""


@dataclass(frozen=True)
class TileStatement(Statement, ABC):
    """Stands where all threads of a block come to it together."""

    where = Where.TOGETHER

    @abstractmethod
    def verify(self, verifier: TileVerifier, scope: Scope) -> None:
        """Checks what is not known from the roles of its fields, and its bodies.

        Raises:
            VerifyError: it does not hold.
        """

    @abstractmethod
    def count(self, counter: TileWork, times: float) -> None:
        """Adds what a thread does in it, carried out this often."""

    @abstractmethod
    def interpret(self, block: TileBlock) -> None:
        """Does what it means."""

    @abstractmethod
    def lines(self, block: Block) -> Iterator[str]:
        """Its text, indented by nothing."""
