"""The kernel IR: scalar expressions and structured statements of one kernel, for GPU and CPU alike.

A program runs `grid` blocks of `threads` threads. On a GPU these are CUDA's; on a CPU a block is a task of the
thread pool and has one thread. A program of several phases is made of grid loops with grid barriers between them; its
`grid` blocks are all resident at once. Arithmetic is done in compute types (see DType.compute); loads and stores
convert.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeAlias

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.attention import AttentionShape, AttentionTiling
from tf_stitch.kernel_ir.index import Index, Var


# Expressions. `dtype` is the type of the value.
@dataclass(frozen=True)
class Literal:
    value: float | int | bool
    dtype: DType


@dataclass(frozen=True)
class Local:
    """A scalar variable: a let, or an accumulator."""

    name: str
    dtype: DType


@dataclass(frozen=True)
class FromIndex:
    """An index as a number."""

    index: Index
    dtype: DType


@dataclass(frozen=True)
class Load:
    """An element of a buffer, converted to the compute type."""

    buffer: str
    index: Index
    dtype: DType


@dataclass(frozen=True)
class Element:
    """An element of a local or shared array."""

    array: str
    index: Index
    dtype: DType


@dataclass(frozen=True)
class InRange:
    """low <= index < high, as a bool."""

    index: Index
    low: int
    high: int
    dtype: DType = DType.BOOL


@dataclass(frozen=True)
class Apply:
    """An elementwise op on operands of its operand type; CAST converts args[0] to dtype."""

    kind: OpKind
    args: tuple[Expr, ...]
    dtype: DType


Expr: TypeAlias = Literal | Local | FromIndex | Load | Element | InRange | Apply


def both(a: Expr | None, b: Expr | None) -> Expr | None:
    """The condition that both hold; None always holds."""
    if a is None or b is None:
        return a or b
    return Apply(OpKind.AND, (a, b), DType.BOOL)


# Statements.
@dataclass(frozen=True)
class Let:
    """An immutable scalar."""

    name: str
    value: Expr


@dataclass(frozen=True)
class LetIndex:
    """An integer variable: min(index, limit), or, from a loaded value, that value forced into [0, limit]; without a
    limit the index itself, known to be inside."""

    var: Var
    source: Index | Expr
    limit: int | None


@dataclass(frozen=True)
class Accumulator:
    """A mutable scalar with its first value."""

    name: str
    dtype: DType
    init: float | int | bool


@dataclass(frozen=True)
class Update:
    """name = combine(name, value); combine is a reduction kind (sum, prod, max, min, any, all)."""

    name: str
    combine: OpKind
    value: Expr


@dataclass(frozen=True)
class Assign:
    """name = value, for an accumulator."""

    name: str
    value: Expr


@dataclass(frozen=True)
class ArgUpdate:
    """If value beats `best`: best = value, at = index. By kind argmax or argmin; NaN never does, the first of equals
    wins."""

    best: str
    at: str
    kind: OpKind
    value: Expr
    index: Index


class Space(Enum):
    """Where an array lives: one per thread, or one per block."""

    LOCAL = "local"
    SHARED = "shared"


@dataclass(frozen=True)
class Array:
    """An uninitialised array of compute-type elements, or filled with `init`.

    Attributes:
        offset: byte of the memory that arrays of this space share (see array_memory); None: memory of its own.
    """

    name: str
    dtype: DType
    size: int
    space: Space = Space.LOCAL
    init: float | int | None = None
    offset: int | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the array; a bool takes those of an int."""
        return self.size * max(self.dtype.compute.size, 4)


@dataclass(frozen=True)
class SetElement:
    """array[index] = value, or combine(array[index], value)."""

    array: str
    index: Index
    value: Expr
    combine: OpKind | None = None


@dataclass(frozen=True)
class Store:
    """buffer[index] = value, converted to the buffer's type."""

    buffer: str
    index: Index
    value: Expr


@dataclass(frozen=True)
class LoadVector:
    """array[at : at+width] = buffer[index : index+width]; the address is a multiple of the vector's bytes."""

    array: str
    at: Index
    buffer: str
    index: Index
    width: int


@dataclass(frozen=True)
class StoreVector:
    """buffer[index : index+width] = array[0 : width]; aligned as LoadVector."""

    buffer: str
    index: Index
    array: str
    width: int


class Loop(Enum):
    """How iterations relate: in order; independent but for reductions; written out."""

    SERIAL = "serial"
    SIMD = "simd"
    UNROLL = "unroll"


TOGETHER = 4
"""Iterations of a GPU's loop whose loads are under way together, if nothing else is asked for."""


@dataclass(frozen=True)
class For:
    """var from 0 to extent - 1, and below `limit` where given.

    Attributes:
        together: iterations of a serial loop that are written out on a GPU, so that their loads do not wait for each
            other.
    """

    var: Var
    body: tuple[Stmt, ...]
    loop: Loop = Loop.SERIAL
    limit: Index | None = None
    together: int = TOGETHER


@dataclass(frozen=True)
class If:
    condition: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


@dataclass(frozen=True)
class AllReduce:
    """Combines accumulators, each by its own kind, over `width` neighbouring threads; all of them get the results."""

    members: tuple[tuple[str, OpKind], ...]
    width: int


@dataclass(frozen=True)
class ArgAllReduce:
    """As AllReduce for a (best, at) pair: the smaller index wins among equals."""

    best: str
    at: str
    kind: OpKind
    width: int
    dtype: DType


@dataclass(frozen=True)
class Barrier:
    """Every thread of the block waits here."""


@dataclass(frozen=True)
class Fetch:
    """Begins array[at : at+width] = buffer[index : index+width] where `inside` holds (None: everywhere): 16 bytes that
    come while the thread does something else. The array is shared; no other thread touches these elements."""

    array: str
    at: Index
    buffer: str
    index: Index
    width: int
    inside: Expr | None = None


@dataclass(frozen=True)
class AwaitFetches:
    """All that this thread has begun to fetch is there, but for the last `pending` fetches."""

    pending: int


@dataclass(frozen=True)
class Fail:
    """Unless the condition holds, the kernel reports failure (CPU; a GPU kernel has no such way)."""

    unless: Expr


@dataclass(frozen=True)
class Comment:
    """What the next phase does, for the reader of the source."""

    text: str


@dataclass(frozen=True)
class GridLoop:
    """`blocks` blocks, dealt out in turn to those of the grid (a grid-stride loop); in `body` BLOCK is the number of
    the one at hand. Stands at the top of a program.

    Attributes:
        backwards: the last block first: what the loop before touched last is still in the cache.
        group: so many neighbouring blocks wait for each other at group barriers; divides `blocks` and the grid.
    """

    blocks: int
    body: tuple[Stmt, ...]
    backwards: bool = False
    group: int = 1


@dataclass(frozen=True)
class GridBarrier:
    """Every thread of every block waits here; what was written before can be read after. Stands at the top of a
    program, between grid loops: no thread can miss it."""


@dataclass(frozen=True)
class GroupBarrier:
    """As GridBarrier for the blocks of a group. Stands at the top of a grid loop's body: no thread can miss it."""


@dataclass(frozen=True)
class Attention:
    """out = softmax(score(q k^T)) v, all threads of the block together, each block its queries of one head. See
    kernel_ir.attention.

    Attributes:
        q, k, v, out: buffers.
        tiles: a shared array of `shared_words` elements.
        outer, head, query, key: variables of `body`: where a score stands.
        score: a scalar of `body`: the product of the query and the key, which `body` makes what softmax gets.
    """

    shape: AttentionShape
    tiling: AttentionTiling
    q: str
    k: str
    v: str
    out: str
    tiles: str
    outer: Var
    head: Var
    query: Var
    key: Var
    score: str
    body: tuple[Stmt, ...]

    @property
    def position(self) -> tuple[Var, Var, Var, Var]:
        return self.outer, self.head, self.query, self.key


Stmt: TypeAlias = (Let | LetIndex | Accumulator | Update | Assign | ArgUpdate | Array | SetElement | Store | LoadVector
                   | StoreVector | For | If | AllReduce | ArgAllReduce | Barrier | Fetch | AwaitFetches | Fail | Comment
                   | GridLoop | GridBarrier | GroupBarrier | Attention)


class Mode(Enum):
    """What a program does with a buffer; UPDATE reads and writes the same element in one iteration, SCRATCH writes
    before a grid barrier and reads after it."""

    READ = "read"
    WRITE = "write"
    UPDATE = "update"
    SCRATCH = "scratch"


@dataclass(frozen=True)
class Buffer:
    """A parameter: `size` elements of the storage type `dtype`. A constant carries its values. One that is `shared` is
    the memory of another parameter, too: the iteration that writes an element is the last to read it."""

    name: str
    dtype: DType
    size: int
    mode: Mode
    constant: tuple[float | int | bool, ...] | None = None
    shared: bool = False


BLOCK = "block"
THREAD = "thread"


@dataclass(frozen=True)
class Program:
    """One kernel body over one domain.

    Attributes:
        cost: rough CPU cycles of one block; what TensorFlow's pool splits work by.
        title: what it computes, from the user's node names; a comment only.
        resident: how many blocks a processor has to hold, since they wait for each other, or is best to hold; a bound
            on registers. 0: not decided here.
    """

    buffers: tuple[Buffer, ...]
    grid: int
    threads: int
    body: tuple[Stmt, ...]
    cost: int = 0
    title: str = field(default="", compare=False)
    resident: int = 0

    @property
    def block(self) -> Var:
        return Var(BLOCK, self.grid)

    @property
    def parameters(self) -> tuple[Buffer, ...]:
        """Buffers that are passed at launch: all but constants."""
        return tuple(b for b in self.buffers if b.constant is None)

    @property
    def looped(self) -> bool:
        """Whether blocks come from grid loops."""
        return any(isinstance(s, GridLoop) for s in self.body)

    @property
    def cooperative(self) -> bool:
        """Whether blocks wait for each other: all of them have to be resident at once."""
        return any(isinstance(s, GridBarrier) or (isinstance(s, GridLoop) and s.group > 1) for s in self.body)

    def phases(self) -> Iterator[Program]:
        """Each grid loop as a program of its own; a program without any is one."""
        loops = [s for s in self.body if isinstance(s, GridLoop)]
        if not loops:
            yield self
        for loop in loops:
            yield replace(self, grid=loop.blocks, body=loop.body)
