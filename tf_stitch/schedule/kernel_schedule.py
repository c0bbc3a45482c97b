"""A kernel schedule: every decision about one kernel, as data. Lowering and emitters only read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tf_stitch.ir.graph import Node
from tf_stitch.ir.symbolic_dims import divides
from tf_stitch.kernel_ir.matmul import MatmulShape, MatmulTiling
from tf_stitch.planning.pattern import Pattern

COOPERATIVE = "groups"
"""In the place of a family, where kernels of several are fused in one cooperative launch."""
MAX_THREADS = 1024
"""Of a block, on any GPU."""


class Scheme(Enum):
    """Where a value lives between producer and consumer inside a kernel (AStitch, Table 1): in registers, in memory of
    the block, or in device memory across a grid barrier. Beyond the paper: in memory of all blocks of a cluster, to
    which each of them sends its part. Values between kernels go through the arena."""

    LOCAL = "local"
    REGIONAL = "regional"
    CLUSTER = "cluster"
    GLOBAL = "global"


class Origin(Enum):
    """Who chose a schedule's tiling."""

    RULE = "rule"
    TUNED = "tuned"
    FORCED = "forced"


@dataclass(frozen=True)
class Domain:
    """The iteration space: rows x columns.

    Attributes:
        rows: kept elements of the dominant reduction, or outer elements of an elementwise domain.
        cols: reduced elements, or inner elements.
    """

    rows: int
    cols: int


@dataclass(frozen=True)
class ThreadMapping:
    """How threads cover the domain.

    Attributes:
        grid: blocks (CPU: tasks).
        threads: threads of a block (CPU: 1).
        row_threads: threads that share a row, of one block.
        rows_per_block: rows a block handles: threads / row_threads at a time.
        vector: elements of one memory access.
        items: accesses a thread makes along a row, when they are unrolled; 0: a loop.
        beyond: accesses after these, in a loop: what they keep is in memory of the block.
        row_blocks: neighbouring blocks that share a row; they wait at cooperative group barriers.
        cluster: they are a cluster of the launch, and wait at cluster barriers instead.
        columns: threads that are next to each other own columns, and those of a column reduce it.
        warp: threads of a warp of the device.
    """

    grid: int
    threads: int
    row_threads: int
    rows_per_block: int
    vector: int
    items: int
    row_blocks: int = 1
    cluster: bool = False
    beyond: int = 0
    columns: bool = False
    warp: int = field(kw_only=True)

    @property
    def waves(self) -> int:
        """Rows that a group of row_threads threads handles in turn."""
        return max(1, self.rows_per_block * self.row_threads // self.threads)

    @property
    def per_pass(self) -> int:
        """Elements of a row that its threads take in one access each."""
        return self.row_blocks * self.row_threads * self.vector

    def ends_with_row(self, cols: int) -> bool:
        """Whether accesses end where a row of `cols` elements does, whatever its sizes are. Unrolled they are a
        number, which may serve rows of several lengths."""
        return (self.items + self.beyond) * self.per_pass == cols if self.items else divides(self.per_pass, cols)


@dataclass(frozen=True)
class Staged:
    """A value staged over the phases of a kernel: in registers (local) or in shared memory / on the stack.

    Attributes:
        instead_of: a value that was staged before, in whose place it is put: it is computed where that is read last.
        early: a value from outside that the first phase reads for a later one.
    """

    node: Node
    scheme: Scheme
    instead_of: Node | None = None
    early: bool = False


@dataclass(frozen=True)
class KernelSchedule:
    """One kernel.

    Attributes:
        family: the name of the kernel family that made it, or COOPERATIVE.
        dominant: the node whose schedule the others follow (AStitch section 4.3).
        last_resort: nothing simpler is left to propose: inefficient indexing is accepted.
        row_room: elements of an array that holds a staged row; 0 for those of the row.
        array_room: bytes that a block has for its arrays; lowering refuses a kernel of more. 0: enough for any.
        array_registers: as array_room, 32-bit registers that a thread has for its own arrays.
        schemes: the scheme of each value that one node of the pattern hands to another; of several users the farthest.
        groups: what runs between grid barriers (AStitch section 4.3, Fig. 9): schedules of disjoint parts of the
            pattern, those of one tuple side by side. All have the threads of `mapping`.
        resident: blocks that a processor holds at once, where blocks wait for each other, or the family knows; else 0.
        launched: blocks that are launched, where several share a row: they take the rows in turn.
        relative: a maximum, and a sum of exponentials relative to it, that blocks which share a row combine in one
            cross-block reduction: each sums relative to its own maximum.
        ahead: the next row is copied to shared memory while this one is worked on (see lowering.prefetch).
        together: iterations of a reduction's loop whose loads a GPU's thread has under way together; 0: as in any.
        rows_before_stores: whose loads a thread of a kernel of columns makes before it stores what becomes of them.
        early_bytes: a kernel that moves fewer asks for all it reads at once.
        matmul: of a matmul's kernel, what it computes and the tiles of its blocks.
        rows_by: of a kernel that writes rows of a tensor in place, the family that computes them.
        origin: who chose the tiling.
    """

    family: str
    pattern: Pattern
    dominant: Node
    domain: Domain
    mapping: ThreadMapping
    staged: tuple[Staged, ...] = ()
    last_resort: bool = False
    row_room: int = 0
    array_room: int = 0
    array_registers: int = 0
    schemes: dict[Node, Scheme] = field(default_factory=dict, compare=False)
    groups: tuple[tuple[KernelSchedule, ...], ...] = ()
    resident: int = 0
    launched: int = 0
    relative: tuple[Node, Node] | None = None
    ahead: bool = False
    together: int = 0
    rows_before_stores: int = 1
    early_bytes: int = 0
    matmul: tuple[MatmulShape, MatmulTiling] | None = None
    rows_by: str = ""
    origin: Origin = Origin.RULE

    @property
    def in_blocks(self) -> bool:
        """Whether blocks of threads run it; else tasks of one thread each."""
        return self.mapping.threads > 1

    def text(self) -> str:
        """One line a fact, for goldens and reports."""
        m = self.mapping
        d = self.domain
        by = f" by {self.rows_by}" if self.rows_by else ""
        lines = [f"{self.family}{by} rows={d.rows} cols={d.cols} dominant={self.dominant.kind.value}",
                 f"  grid={m.grid} threads={m.threads} row_threads={m.row_threads} rows_per_block={m.rows_per_block}"
                 f" vector={m.vector} items={m.items}" + (f" beyond={m.beyond}" if m.beyond else "")
                 + (f" row_blocks={m.row_blocks}" if m.row_blocks > 1 else "")
                 + " cluster" * m.cluster
                 + " one cross-block reduction" * (self.relative is not None) + " ahead" * self.ahead
                 + (f" together={self.together}" if self.together else "")]
        for i, together in enumerate(self.groups):
            lines += ["  grid barrier"] * (i > 0)
            lines += [f"  {line}" for group in together for line in group.text().splitlines()]
        lines += [f"  staged {s.node.kind.value} {s.node.type}: {s.scheme.value}"
                  + (f" instead of {s.instead_of.kind.value}" if s.instead_of else "") + " early" * s.early
                  for s in self.staged]
        return "\n".join(lines)
