"""Statements that compute, load, store and copy values; none has statements inside or waits for other threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_attrs import Combine
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.expressions import Expr
from tf_stitch.kernel_ir.index import Index, Var
from tf_stitch.kernel_ir.roles import Role, Where
from tf_stitch.kernel_ir.statement import ArrayName, At, Hints, LetName, Reads, Sets, Statement, Value, VarName, Writes


@dataclass(frozen=True)
class Let(Statement):
    """An immutable scalar. Here as below `note` is the user's node that it is the value of, for the reader of the
    source; statements that differ in it alone are equal."""

    name: LetName
    value: Value
    note: str = field(default="", compare=False)


@dataclass(frozen=True)
class LetIndex(Statement):
    """An integer variable: an index, or a loaded value, forced into [0, limit]; without a limit the index itself, known
    to be inside."""

    var: Var
    source: Annotated[Index | Expr, Role.OPERAND]
    limit: int | None


@dataclass(frozen=True)
class Accumulator(Statement):
    """A mutable scalar with its first value."""

    name: VarName
    dtype: DType
    init: float | int | bool
    note: str = field(default="", compare=False)


@dataclass(frozen=True)
class Update(Statement):
    """name = combine(name, value); combine is a reduction kind (sum, prod, max, min, any, all)."""

    name: Sets
    combine: OpKind
    value: Value


@dataclass(frozen=True)
class Assign(Statement):
    """name = value, for an accumulator."""

    name: Sets
    value: Value


@dataclass(frozen=True)
class ArgUpdate(Statement):
    """If value beats `best`: best = value, at = index. By kind argmax or argmin; NaN never does, the first of equals
    wins."""

    best: Sets
    at: Sets
    kind: OpKind
    value: Value
    index: At


class Space(Enum):
    """Where an array lives: one per thread, or one per block."""

    LOCAL = "local"
    SHARED = "shared"


@dataclass(frozen=True)
class Array(Statement):
    """An uninitialised array of compute-type elements, or filled with `init`.

    Attributes:
        offset: byte of the memory that arrays of this space share (see array_memory); None: memory of its own.
        carried: a block of a grid loop finds in it what the same block of the grid left there in its turn before.
        received: the blocks of the cluster write it (Send); its own block reads it.
        packed: elements are kept as they lie in memory, a thread's own of a half two to a register. Filled by vectors.
    """

    name: str
    dtype: DType
    size: int
    space: Space = Space.LOCAL
    init: float | int | None = None
    offset: int | None = None
    carried: bool = False
    received: bool = False
    note: str = field(default="", compare=False)
    packed: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of the array; a bool takes those of an int."""
        return self.size * (self.dtype.size if self.packed else max(self.dtype.compute.size, 4))


@dataclass(frozen=True)
class SetElement(Statement):
    """array[index] = value, or combine(array[index], value).

    Attributes:
        fused: the value is a product, which is not rounded before it is added: terms of one op of the user's.
    """

    array: ArrayName
    index: At
    value: Value
    combine: OpKind | None = None
    fused: bool = False


@dataclass(frozen=True)
class Store(Statement):
    """buffer[index] = value, converted to the buffer's type."""

    buffer: Writes
    index: At
    value: Value


@dataclass(frozen=True)
class Accumulate(Statement):
    """buffer[index] = combine(buffer[index], value), rounded to the buffer's type. Threads of a GPU do so to one
    element in any order, each of them as a whole; tasks of a CPU have elements of their own.

    Attributes:
        updates_first: see ScatterAttrs; on a GPU the order of threads decides what is NaN.
    """

    buffer: Writes
    index: At
    value: Value
    combine: Combine
    updates_first: bool = False


@dataclass(frozen=True)
class LoadVector(Statement):
    """array[at : at+width] = buffer[index : index+width]; the address is a multiple of the vector's bytes."""

    array: ArrayName
    at: At
    buffer: Reads
    index: At
    width: int


@dataclass(frozen=True)
class LoadFence(Statement):
    """Scalars and arrays of a thread that were loaded by now: a GPU's compiler is kept from loading them later."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class AwaitDependencies(Statement):
    """The launches that this one depends on have ended, and what they wrote can be read. Stands once, at the top of a
    program that is no grid loop; before it a thread reads only buffers that none of them writes. A program without one
    awaits them before all else."""

    where = Where.TOP_OF_PROGRAM


@dataclass(frozen=True)
class StoreVector(Statement):
    """buffer[index : index+width] = array[0 : width]; aligned as LoadVector."""

    buffer: Writes
    index: At
    array: ArrayName
    width: int


@dataclass(frozen=True)
class AsyncCopy(Statement):
    """Begins array[at : at+width] = buffer[index : index+width] where `inside` holds (None: everywhere): 16 bytes that
    come while the thread does something else. The array is shared; no other thread touches these elements."""

    array: ArrayName
    at: At
    buffer: Reads
    index: At
    width: int
    inside: Annotated[Expr | None, Role.OPERAND] = None


@dataclass(frozen=True)
class AwaitAsyncCopies(Statement):
    """All that this thread has begun to copy is there, but for the last `pending` copies."""

    pending: int


@dataclass(frozen=True)
class Prefetch(Statement):
    """A hint: buffer[index : index+count] is read soon; what of it lies behind the buffer's end is left alone (CPU)."""

    buffer: Hints
    index: At
    count: int


@dataclass(frozen=True)
class Fail(Statement):
    """Unless the condition holds, the kernel reports failure (CPU; a GPU kernel has no such way)."""

    unless: Value


@dataclass(frozen=True)
class Comment(Statement):
    """What comes next, for the reader of the source.

    Attributes:
        notes: the user's nodes that it is about.
    """

    text: str
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def line(self) -> str:
        return f"{self.text}: {', '.join(self.notes)}" if self.notes else self.text
