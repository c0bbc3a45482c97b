"""Statements of the kernel IR. This module and value_statements alone say which parts each kind has; here are loops,
branches, and what threads and blocks do together."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, TypeAlias

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.attention import AttentionShape, AttentionTiling, SingleQueryTiling
from tf_stitch.kernel_ir.attention_gradient import GradientShape, GradientTiling
from tf_stitch.kernel_ir.index import Index, Var
from tf_stitch.kernel_ir.matmul import MatmulShape, MatmulTiling
from tf_stitch.kernel_ir.roles import Role, Where
from tf_stitch.kernel_ir.statement import ArrayName, At, Reads, Sets, Statement, Value, Writes
from tf_stitch.kernel_ir.value_statements import (
    Accumulate,
    Accumulator,
    ArgUpdate,
    Array,
    Assign,
    AsyncCopy,
    AwaitAsyncCopies,
    AwaitDependencies,
    Comment,
    Fail,
    Let,
    LetIndex,
    LoadFence,
    LoadVector,
    Prefetch,
    SetElement,
    Store,
    StoreVector,
    Update,
)

Body: TypeAlias = Annotated[tuple["Stmt", ...], Role.BODY]


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
class GridLoop(Statement):
    """`blocks` blocks, dealt out in turn to those of the grid (a grid-stride loop); in `body` BLOCK is the number of
    the one at hand. Stands at the top of a program.

    Attributes:
        backwards: the last block first: what the loop before touched last is still in the cache.
        group: this many neighbouring blocks wait for each other at group barriers; divides `blocks` and the grid.
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
        weight: a scalar of `weigh`: a multiple of a probability, which `weigh` makes that multiple of a weight.
        most, total: scalars of `keep`, which runs for each query: the largest score, and the sum of exponentials.
    """

    where = Where.TOGETHER

    shape: AttentionShape
    tiling: AttentionTiling | SingleQueryTiling
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
    most: str = "most"
    total: str = "total"
    keep: Body = ()
    weight: str = "weight"
    weigh: Body = ()
    barrier: WaitsAt = WHOLE_BLOCK

    @property
    def position(self) -> tuple[Var, Var, Var, Var]:
        return self.outer, self.head, self.query, self.key


@dataclass(frozen=True)
class _AttentionGradient(Statement):
    """All threads of the block together, each block its rows of one head: queries, or keys. See
    kernel_ir.attention_gradient.

    Attributes:
        own, other: buffers: matrices of `depth` columns, with rows of the blocks' own, and with the others.
        own_2, other_2: of `width` columns.
        result: d other, where d is what `body` makes of `gradient`.
        tiles: a shared array of `gradient_words` elements.
        outer, head, query, key: variables of bodies: where an element stands.
        score, gradient: scalars of bodies: the products of the query and the key, of own or other, and of own_2 or
            other_2. `body` makes of them the weight and the gradient of the score.
        most: a scalar that `find_most` sets to the largest score of a query, if shape.causal asks for it.
    """

    where = Where.TOGETHER

    shape: GradientShape
    tiling: GradientTiling
    own: Reads
    own_2: Reads
    other: Reads
    other_2: Reads
    result: Writes
    tiles: ArrayName
    outer: Var
    head: Var
    query: Var
    key: Var
    score: str
    gradient: str
    body: Body
    most: str
    find_most: Body

    @property
    def position(self) -> tuple[Var, Var, Var, Var]:
        return self.outer, self.head, self.query, self.key


@dataclass(frozen=True)
class AttentionQueryGradient(_AttentionGradient):
    """Rows are queries.

    Attributes:
        row_sum: a scalar of `body` and `keep`: the sum over keys of what `summand` makes of `gradient`.
        keep: runs for each query.
    """

    row_sum: str
    summand: Body
    keep: Body = ()
    barrier: WaitsAt = WHOLE_BLOCK


@dataclass(frozen=True)
class AttentionKeyGradient(_AttentionGradient):
    """Rows are keys.

    Attributes:
        result_2: s other_2, where s is what `body` makes of `score`.
    """

    result_2: Writes
    barrier: WaitsAt = WHOLE_BLOCK


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
        ahead: a MatmulPrefetch of b stands before.
        maps: of a tiling in pairs, memory in which each block describes its operands, BLOCK_MAPS floats each; else "".
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
    ahead: bool = False
    maps: Writes = ""


@dataclass(frozen=True)
class MatmulPrefetch(Statement):
    """Begins to copy the first stages of a matmul's second operand, which lies in memory as it is.

    Attributes:
        tiles: the array of the Matmul that follows, of this shape and tiling.
    """

    where = Where.TOGETHER

    shape: MatmulShape
    tiling: MatmulTiling
    b: Reads
    tiles: ArrayName


Stmt: TypeAlias = (Let | LetIndex | Accumulator | Update | Assign | ArgUpdate | Array | SetElement | Store | Accumulate
                   | LoadVector | AwaitDependencies
                   | LoadFence | StoreVector | For | If | AllReduce | ArgAllReduce | Barrier | AsyncCopy
                   | AwaitAsyncCopies | Prefetch | Fail | Comment | GridLoop | GridBarrier | GroupBarrier | ThreadRange
                   | Send | ClusterStarted | ClusterBarrier | Attention | AttentionQueryGradient
                   | AttentionKeyGradient | Matmul | MatmulPrefetch)
