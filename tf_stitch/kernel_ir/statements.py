"""Structured statements of the kernel IR."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.attention import AttentionShape, AttentionTiling
from tf_stitch.kernel_ir.expressions import Expr
from tf_stitch.kernel_ir.index import Index, Var


@dataclass(frozen=True)
class Let:
    """An immutable scalar. Here as below `note` is the user's node that it is the value of, for the reader of the
    source; statements that differ in it alone are equal."""

    name: str
    value: Expr
    note: str = field(default="", compare=False)


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
    note: str = field(default="", compare=False)


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
class LoadFence:
    """Scalars and arrays of a thread that were loaded by now: a GPU's compiler is kept from loading them later."""

    names: tuple[str, ...]


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
class AsyncCopy:
    """Begins array[at : at+width] = buffer[index : index+width] where `inside` holds (None: everywhere): 16 bytes that
    come while the thread does something else. The array is shared; no other thread touches these elements."""

    array: str
    at: Index
    buffer: str
    index: Index
    width: int
    inside: Expr | None = None


@dataclass(frozen=True)
class AwaitAsyncCopies:
    """All that this thread has begun to fetch is there, but for the last `pending` fetches."""

    pending: int


@dataclass(frozen=True)
class Prefetch:
    """A hint: buffer[index : index+count] is read soon; what of it lies behind the buffer's end is left alone (CPU)."""

    buffer: str
    index: Index
    count: int


@dataclass(frozen=True)
class Fail:
    """Unless the condition holds, the kernel reports failure (CPU; a GPU kernel has no such way)."""

    unless: Expr


@dataclass(frozen=True)
class Comment:
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
class Send:
    """array[index] = value in the memory of a block of this one's cluster, its own too. The array is `received`.

    Attributes:
        block: its number in the cluster.
    """

    array: str
    index: Index
    value: Expr
    block: Index


@dataclass(frozen=True)
class ClusterStarted:
    """Every thread waits until all blocks of its cluster run: only then have they memory to send to. Stands once, at
    the top of a program, before its first Send."""


@dataclass(frozen=True)
class ClusterBarrier:
    """Every thread of every block of the cluster waits here: what was sent before can be read after, and no block ends
    while another may send to it. Stands at the top of a program: no thread can miss it."""


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
                   | LoadFence | StoreVector | For | If | AllReduce | ArgAllReduce | Barrier | AsyncCopy
                   | AwaitAsyncCopies | Prefetch | Fail | Comment | GridLoop | GridBarrier | GroupBarrier | Send
                   | ClusterStarted | ClusterBarrier | Attention)
