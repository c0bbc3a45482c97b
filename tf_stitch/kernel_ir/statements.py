"""Structured statements of the kernel IR: the one place that says which parts each kind has."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, ClassVar, TypeAlias

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_attrs import Combine
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.attention import AttentionShape, AttentionTiling
from tf_stitch.kernel_ir.expressions import Expr
from tf_stitch.kernel_ir.index import Index, Var
from tf_stitch.kernel_ir.matmul import MatmulShape, MatmulTiling
from tf_stitch.kernel_ir.roles import Role, Where

Value: TypeAlias = Annotated[Expr, Role.OPERAND]
At: TypeAlias = Annotated[Index, Role.OPERAND]
Body: TypeAlias = Annotated[tuple["Stmt", ...], Role.BODY]
Reads: TypeAlias = Annotated[str, Role.READS]
Writes: TypeAlias = Annotated[str, Role.WRITES]
Hints: TypeAlias = Annotated[str, Role.HINTS]
ArrayName: TypeAlias = Annotated[str, Role.ARRAY]
LetName: TypeAlias = Annotated[str, Role.LET]
VarName: TypeAlias = Annotated[str, Role.VAR]
Sets: TypeAlias = Annotated[str, Role.SETS]


@dataclass(frozen=True)
class BlockBarrier:
    """One of a block's barriers.

    Attributes:
        id: its number; of a thread range's, no other range's.
        threads: how many wait there until as many have come; 0: all of the block.
    """

    id: int = 0
    threads: int = 0


WHOLE_BLOCK = BlockBarrier()
WaitsAt: TypeAlias = Annotated[BlockBarrier, Role.BARRIER]


@dataclass(frozen=True)
class Statement:
    """Base of all. Fields say what they hold by their roles; those without are plain values."""

    where: ClassVar[Where] = Where.ANYWHERE


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

    @property
    def nbytes(self) -> int:
        """Bytes of the array; a bool takes those of an int."""
        return self.size * max(self.dtype.compute.size, 4)


@dataclass(frozen=True)
class SetElement(Statement):
    """array[index] = value, or combine(array[index], value)."""

    array: ArrayName
    index: At
    value: Value
    combine: OpKind | None = None


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
class StoreVector(Statement):
    """buffer[index : index+width] = array[0 : width]; aligned as LoadVector."""

    buffer: Writes
    index: At
    array: ArrayName
    width: int


class Loop(Enum):
    """How iterations relate: in order; independent but for reductions; unrolled."""

    SERIAL = "serial"
    SIMD = "simd"
    UNROLL = "unroll"


TOGETHER = 4
"""Iterations of a GPU's loop whose loads are under way together, if nothing else is asked for."""


@dataclass(frozen=True)
class For(Statement):
    """var from 0 to extent - 1, and below `limit` where given.

    Attributes:
        together: iterations of a serial loop that are unrolled on a GPU, so that their loads do not wait for each
            other.
    """

    var: Var
    body: Body
    loop: Loop = Loop.SERIAL
    limit: Annotated[Index | None, Role.OPERAND] = None
    together: int = TOGETHER


@dataclass(frozen=True)
class If(Statement):
    condition: Value
    body: Body
    orelse: Body = ()


@dataclass(frozen=True)
class AllReduce(Statement):
    """Combines accumulators, each by its own kind, over `width` neighbouring threads; all of them get the results."""

    where = Where.TOGETHER

    members: tuple[tuple[str, OpKind], ...]
    width: int
    barrier: WaitsAt = WHOLE_BLOCK


@dataclass(frozen=True)
class ArgAllReduce(Statement):
    """As AllReduce for a (best, at) pair: the smaller index wins among equals."""

    where = Where.TOGETHER

    best: Sets
    at: Sets
    kind: OpKind
    width: int
    dtype: DType
    barrier: WaitsAt = WHOLE_BLOCK


@dataclass(frozen=True)
class Barrier(Statement):
    """Every thread of the block waits here, or of its thread range."""

    where = Where.TOGETHER

    barrier: WaitsAt = WHOLE_BLOCK


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


@dataclass(frozen=True)
class GridLoop(Statement):
    """`blocks` blocks, dealt out in turn to those of the grid (a grid-stride loop); in `body` BLOCK is the number of
    the one at hand. Stands at the top of a program.

    Attributes:
        backwards: the last block first: what the loop before touched last is still in the cache.
        group: so many neighbouring blocks wait for each other at group barriers; divides `blocks` and the grid.
    """

    where = Where.TOP_OF_PROGRAM

    blocks: int
    body: Body
    backwards: bool = False
    group: int = 1


@dataclass(frozen=True)
class GridBarrier(Statement):
    """Every thread of every block waits here; what was written before can be read after. Stands at the top of a
    program, between grid loops: no thread can miss it."""

    where = Where.TOP_OF_PROGRAM


@dataclass(frozen=True)
class GroupBarrier(Statement):
    """As GridBarrier for the blocks of a group. Stands at the top of a grid loop's body: no thread can miss it."""

    where = Where.TOP_OF_BLOCK


@dataclass(frozen=True)
class ThreadRange(Statement):
    """Some neighbouring threads of each of the first `blocks` blocks, as a block of their own: in `body` THREAD counts
    from `first` on (horizontal fusion, HFuse). Stands at the top of a program, beside those of the other threads, which
    share nothing with it but the block."""

    where = Where.TOP_OF_PROGRAM

    first: int
    threads: int
    blocks: int
    body: Body


@dataclass(frozen=True)
class Send(Statement):
    """array[index] = value in the memory of a block of this one's cluster, its own too. The array is `received`.

    Attributes:
        block: its number in the cluster.
    """

    array: ArrayName
    index: At
    value: Value
    block: At


@dataclass(frozen=True)
class ClusterStarted(Statement):
    """Every thread waits until all blocks of its cluster run: only then have they memory to send to. Stands once, at
    the top of a program, before its first Send."""

    where = Where.TOP_OF_BLOCK


@dataclass(frozen=True)
class ClusterBarrier(Statement):
    """Every thread of every block of the cluster waits here: what was sent before can be read after, and no block ends
    while another may send to it. Stands at the top of a program: no thread can miss it."""

    where = Where.TOP_OF_BLOCK


@dataclass(frozen=True)
class Attention(Statement):
    """out = softmax(score(q k^T)) v, all threads of the block together, each block its queries of one head. See
    kernel_ir.attention.

    Attributes:
        q, k, v, out: buffers.
        tiles: a shared array of `shared_words` elements.
        outer, head, query, key: variables of `body`: where a score stands.
        score: a scalar of `body`: the product of the query and the key, which `body` makes what softmax gets.
    """

    where = Where.TOGETHER

    shape: AttentionShape
    tiling: AttentionTiling
    q: Reads
    k: Reads
    v: Reads
    out: Writes
    tiles: ArrayName
    outer: Var
    head: Var
    query: Var
    key: Var
    score: str
    body: Body
    barrier: WaitsAt = WHOLE_BLOCK

    @property
    def position(self) -> tuple[Var, Var, Var, Var]:
        return self.outer, self.head, self.query, self.key


@dataclass(frozen=True)
class Matmul(Statement):
    """a b, all threads of the block together, each block the results of a tile. See kernel_ir.matmul.

    Attributes:
        a, b: buffers of operands that lie in memory as they are; "" for what a body computes.
        tiles: a shared array of `shared_words` elements.
        load_a, load_b: fill the array `values` of their vector with what stands at a place of the operand, which is
            empty for what lies in memory.
        a_place, b_place: variables of these bodies: matrix, line and vector along the line.
        finish: does with the results in the array `results`, of the shape's vector, what is to be done, at a place:
            matrix, row and vector along the row. It may change them.
    """

    where = Where.TOGETHER

    shape: MatmulShape
    tiling: MatmulTiling
    a: Reads
    b: Reads
    tiles: ArrayName
    values: str
    a_place: tuple[Var, Var, Var]
    load_a: Body
    b_place: tuple[Var, Var, Var]
    load_b: Body
    results: str
    place: tuple[Var, Var, Var]
    finish: Body
    barrier: WaitsAt = WHOLE_BLOCK


Stmt: TypeAlias = (Let | LetIndex | Accumulator | Update | Assign | ArgUpdate | Array | SetElement | Store | Accumulate
                   | LoadVector
                   | LoadFence | StoreVector | For | If | AllReduce | ArgAllReduce | Barrier | AsyncCopy
                   | AwaitAsyncCopies | Prefetch | Fail | Comment | GridLoop | GridBarrier | GroupBarrier | ThreadRange
                   | Send | ClusterStarted | ClusterBarrier | Attention | Matmul)
