"""A kernel: its parameters, how many blocks and threads run it, and its statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from tf_stitch.ir.dtypes import DType
from tf_stitch.kernel_ir.index import Var
from tf_stitch.kernel_ir.statement import Stmt
from tf_stitch.kernel_ir.statements import GridBarrier, GridLoop, ThreadRange


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
    the memory of another parameter, too: the iteration that writes an element is the last to read it. `note` is the
    user's node whose value it holds."""

    name: str
    dtype: DType
    size: int
    mode: Mode
    constant: tuple[float | int | bool, ...] | None = None
    shared: bool = False
    note: str = field(default="", compare=False)


BLOCK = "block"
THREAD = "thread"


@dataclass(frozen=True)
class Program:
    """One kernel body over one domain.

    Attributes:
        cost: rough CPU cycles of one block; what TensorFlow's pool splits work by.
        title: what it computes, from the user's node names; a comment only.
        noted: note of a buffer or a statement -> the user's name of that node, where it is another: the program was
            made for a part of the graph that is built alike.
        resident: how many blocks a processor has to hold, since they wait for each other, or is best to hold; a bound
            on registers. 0: not decided here.
        cluster: this many neighbouring blocks are a cluster of the launch: they run at the same time, meet at cluster
            barriers and write into each other's shared memory. Divides the grid.
        warp: threads that reduce by shuffles, without a barrier of the block.
    """

    buffers: tuple[Buffer, ...]
    grid: int
    threads: int
    body: tuple[Stmt, ...]
    cost: int = 0
    title: str = field(default="", compare=False)
    resident: int = 0
    cluster: int = 1
    warp: int = 1
    noted: Mapping[str, str] = field(default_factory=dict, compare=False)

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
    def partitioned(self) -> bool:
        """Whether the threads of a block are parted among programs."""
        return any(isinstance(s, ThreadRange) for s in self.body)

    @property
    def cooperative(self) -> bool:
        """Whether blocks wait for each other: all of them have to be resident at once."""
        return any(isinstance(s, GridBarrier) or (isinstance(s, GridLoop) and s.group > 1) for s in self.body)

    @property
    def alone(self) -> bool:
        """Whether no other program may share its launch: blocks wait for all others, are dealt out to the grid, or are
        shared already."""
        return self.looped or self.partitioned

    def phases(self) -> Iterator[Program]:
        """Each grid loop, or thread range, as a program of its own; a program without any is one."""
        parts = [s for s in self.body if isinstance(s, GridLoop | ThreadRange)]
        if not parts:
            yield self
        for part in parts:
            threads = part.threads if isinstance(part, ThreadRange) else self.threads
            yield replace(self, grid=part.blocks, threads=threads, body=part.body)
