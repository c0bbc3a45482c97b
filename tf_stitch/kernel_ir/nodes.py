"""The kernel IR, scalar expressions and structured statements of one kernel for GPU and CPU alike, under one name.

A program runs `grid` blocks of `threads` threads. On a GPU these are CUDA's; on a CPU a block is a task of the
thread pool and has one thread. A program of several phases is made of grid loops with grid barriers between them; its
`grid` blocks are all resident at once. Arithmetic is done in compute types (see DType.compute); loads and stores
convert.
"""

from __future__ import annotations

from tf_stitch.kernel_ir.attention_gradient_statement import (
    AttentionKeyGradient,
    AttentionQueryGradient,
)
from tf_stitch.kernel_ir.attention_statement import Attention
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
from tf_stitch.kernel_ir.matmul_statement import Matmul, MatmulPrefetch
from tf_stitch.kernel_ir.program import (
    BLOCK,
    THREAD,
    Buffer,
    Mode,
    Program,
)
from tf_stitch.kernel_ir.statement import Stmt
from tf_stitch.kernel_ir.statements import (
    TOGETHER,
    WHOLE_BLOCK,
    AllReduce,
    ArgAllReduce,
    Barrier,
    BlockBarrier,
    ClusterBarrier,
    ClusterStarted,
    For,
    GridBarrier,
    GridLoop,
    GroupBarrier,
    If,
    Loop,
    Send,
    ThreadRange,
)
from tf_stitch.kernel_ir.tile_product import TileProduct
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
    Space,
    Store,
    StoreVector,
    Update,
)
