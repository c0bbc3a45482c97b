"""What one thread of a program does: ops, memory accesses, waits."""

from __future__ import annotations

from dataclasses import dataclass, field

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.matmul import MatmulShape, MatmulTiling

SECTOR_BYTES = 32
"""What memory moves at least."""
LINE_BYTES = 64
"""Bytes that stay at hand between neighbouring accesses of one thread."""
SIMD_LANES = 8
"""Elements of a vector on a CPU."""

Op = tuple[DType, OpKind]


@dataclass(frozen=True)
class Access:
    """Loads or stores of one statement.

    Attributes:
        count: elements that one thread accesses.
        distinct: elements among them; what is accessed again stays close to the thread.
        width: elements at a time.
        stride: elements between neighbouring threads (CPU: between neighbours of a vector loop); None: no fixed number.
        store: it writes.
    """

    buffer: str
    count: float
    distinct: float
    width: int
    stride: int | None
    store: bool


@dataclass
class Work:
    """Per thread of a block, each branch as often as it is taken; of two that data decide about the longer one, always.

    Attributes:
        vector, scalar: ops in vectorised loops, and others (all of a GPU's).
        rounds: groups of independent loads that wait for one another.
        async_copies: loads of later rows, under way beside everything else.
        reductions: over how many threads -> how often; a barrier alone is one over the whole block.
        shuffles: steps of reductions within warps, each on every thread.
        cross_block_reductions: barriers of the cluster.
        loops: vector loops that were entered (CPU).
        elements: accesses of local and shared arrays.
        registers: elements of local arrays that are alive together, at most.
        shared_bytes: of the block's arrays.
        in_turn: blocks load, multiply and store one after the other, and few of them are on a processor.
        warpgroup_starts: of blocks alone whose warpgroups multiply.
        paired: matmuls of pairs of blocks, and how many tiles each block has, one after the other.
        multiply_adds: multiplications with additions by tensor cores, in TF32.
        warpgroup_multiply_adds: likewise, by warpgroups.
        together: elements of a loop's loads that a GPU's thread has under way, where it says so.
        lines: a GPU's: lines of the first cache that its warp's loads and stores look up, each for itself.
    """

    vector: dict[Op, float] = field(default_factory=dict)
    scalar: dict[Op, float] = field(default_factory=dict)
    accesses: list[Access] = field(default_factory=list)
    rounds: float = 0
    async_copies: float = 0
    reductions: dict[int, float] = field(default_factory=dict)
    shuffles: float = 0
    cross_block_reductions: float = 0
    loops: float = 0
    elements: float = 0
    registers: int = 0
    shared_bytes: int = 0
    in_turn: bool = False
    warpgroup_starts: int = 0
    paired: list[tuple[MatmulShape, MatmulTiling, float]] = field(default_factory=list)
    multiply_adds: float = 0
    warpgroup_multiply_adds: float = 0
    lines: float = 0
    together: int = 1
