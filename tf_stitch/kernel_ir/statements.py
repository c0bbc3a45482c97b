"""Loops, branches, and what threads and blocks do together."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, TypeAlias

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.index import Index, Var
from tf_stitch.kernel_ir.roles import Role, Where
from tf_stitch.kernel_ir.statement import ArrayName, At, Body, Sets, Statement, Value


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
