"""The kernel IR, scalar expressions and structured statements of one kernel for GPU and CPU alike, under one name.

A program runs `grid` blocks of `threads` threads. On a GPU these are CUDA's; on a CPU a block is a task of the
thread pool and has one thread. A program of several phases is made of grid loops with grid barriers between them; its
`grid` blocks are all resident at once. Arithmetic is done in compute types (see DType.compute); loads and stores
convert.
"""

from __future__ import annotations

from tf_stitch.kernel_ir.expressions import (
    Apply,
    Element,
    Expr,
    FromIndex,
    InRange,
    Literal,
    Load,
    Local,
    both,
)
from tf_stitch.kernel_ir.program import (
    BLOCK,
    THREAD,
    Buffer,
    Mode,
    Program,
)
from tf_stitch.kernel_ir.statements import (
    TOGETHER,
    Accumulator,
    AllReduce,
    ArgAllReduce,
    ArgUpdate,
    Array,
    Assign,
    Attention,
    AwaitFetches,
    Barrier,
    ClusterBarrier,
    ClusterStarted,
    Comment,
    Fail,
    Fetch,
    For,
    GridBarrier,
    GridLoop,
    GroupBarrier,
    If,
    Let,
    LetIndex,
    Loaded,
    LoadVector,
    Loop,
    Prefetch,
    Send,
    SetElement,
    Space,
    Stmt,
    Store,
    StoreVector,
    Update,
)

__all__ = [
    "BLOCK", "THREAD", "TOGETHER", "Accumulator", "AllReduce", "Apply", "ArgAllReduce", "ArgUpdate", "Array",
    "Assign", "Attention", "AwaitFetches", "Barrier", "Buffer", "ClusterBarrier", "ClusterStarted", "Comment",
    "Element", "Expr", "Fail", "Fetch", "For", "FromIndex", "GridBarrier", "GridLoop", "GroupBarrier", "If",
    "InRange", "Let", "LetIndex", "Literal", "Load", "LoadVector", "Loaded", "Local", "Loop", "Mode", "Prefetch",
    "Program", "Send", "SetElement", "Space", "Stmt", "Store", "StoreVector", "Update", "both",
]
