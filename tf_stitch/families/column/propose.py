"""Schedules of columns: threads next to each other own columns next to each other."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.reductions import ARG_KINDS, keeps_last_axis
from tf_stitch.ir.symbolic_dims import SymbolicDim, ceil_div
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.few_blocks import FEW_BLOCKS, MOST_STEPS, MOST_TOGETHER, few_blocks, loads_together
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, ThreadMapping
from tf_stitch.schedule.vector_width import vector_width

NAME = "column_reduction"

LEAST_CPU_TILE = 64
GPU_ACROSS = 32
GPU_THREADS = 256
NARROW, NARROWEST, FEWEST_COLUMNS = 8, 4, 16
"""Threads across of the narrowest tiles, the second for a quarter of the processors or less: a line and half a line; of
halves, of which one has twice the columns, a quarter."""
MORE_THREADS = 512
"""Of a block where processors have few, and each thread would take more rows than it loads together. Not where weights
are read before other launches have ended: fewer threads have more registers for them (compiler/early_weights.py)."""
SHORT, MANY_BLOCKS = 128, 4
"""Rows that a thread reduces alone where there are this many blocks for a processor."""
MOST_REPEATED = 8192
"""Elements of a reduction that every block repeats: they come from a cache in less time than a launch takes."""



def propose_column(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    """The column schedule.

    Raises:
        ScheduleError: a reduction that does not keep its last axis, different extents, reductions in sequence, or
            outputs of other sizes.
    """
    reductions = sums_of_columns(pattern, device.simt)
    if not reductions:
        raise ScheduleError("no reduction")
    for node in reductions:
        if not keeps_last_axis(node):
            raise ScheduleError(f"{node.kind.value} reduces its last axis", node.loc)
    extents = {(n.type.numel, n.operands[0].type.numel, n.operands[0].type.dims[-1]) for n in reductions}
    if len(extents) > 1:
        raise ScheduleError("reductions of different extents")
    kept, elements, inner = extents.pop()
    domain = Domain(kept, elements // max(kept, 1))
    column_outputs(pattern, reductions, domain.rows, domain.cols)  # the planner grows patterns by what is proposed
    outer = kept // max(inner, 1)
    together = 0  # as in any loop
    if device.simt:
        early = device.early_starts and _multiplies_a_vector(pattern, domain)
        mapping = _gpu(domain, inner, vector_width(pattern, inner, aligned), early, device)
        if few_blocks(mapping.grid, device):
            times = MORE_THREADS // mapping.threads if early else 1
            together = loads_together(pattern, elements, mapping.vector, times)
    else:
        tile = max(device.profile.sizes.cpu_sums // len(reductions), LEAST_CPU_TILE)
        tile = tile if isinstance(inner, SymbolicDim) else min(inner, tile)
        mapping = ThreadMapping(outer * ceil_div(inner, tile), 1, 1, 1, tile, 0, columns=True, warp=device.warp)
    return [KernelSchedule(NAME, pattern, reductions[0], domain, mapping, together=together,
                           rows_before_stores=device.profile.sizes.rows_before_stores)]


def _multiplies_a_vector(pattern: Pattern, domain: Domain) -> bool:
    """Whether a matrix and a vector are read, one element of the vector for each row: most such matrices are weights.
    Who computes what is read must not matter, for it is not known where kernels are made for other sizes."""
    sizes = [read.type.numel for read in pattern.reads()]
    return domain.cols in sizes and any(size >= domain.rows * domain.cols for size in sizes)


def sums_of_columns(pattern: Pattern, in_blocks: bool) -> list[Node]:
    """The reductions that a kernel is of. The others are of everything, are needed before, and are so short that each
    block has them by itself: what a norm knows of its only row.

    Args:
        in_blocks: of threads.
    """
    reductions = [n for n in pattern.nodes if n.category is Category.REDUCTION]
    longest = [n for n in reductions if not is_short(n)]
    return longest if in_blocks and longest else reductions


def is_short(node: Node) -> bool:
    """Whether every block of a kernel may as well reduce all of this by itself."""
    operand = node.operands[0].type
    return node.kind not in ARG_KINDS and operand.is_static and bool(
        node.type.numel == 1 and operand.numel <= MOST_REPEATED)


def column_outputs(pattern: Pattern, reductions: Sequence[Node], kept: int, length: int
                   ) -> tuple[list[Node], list[Node]]:
    """Outputs written per element, and per column.

    Args:
        kept: elements of each reduction's result.
        length: elements that each of them reduces.

    Raises:
        ScheduleError: an output that is neither, or a reduction that waits for another.
    """
    elements: list[Node] = []
    columns: list[Node] = []
    below = set(reductions)
    for node in pattern.nodes:
        if any(o in below for o in node.operands):
            below.add(node)
    for node in pattern.outputs:
        if node not in below and node.type.numel == kept * length:
            elements.append(node)
        elif node.type.numel == kept:
            columns.append(node)
        else:
            raise ScheduleError(f"an output of {node.type} is neither a column nor an element", node.loc)
    for node in pattern.nodes:
        if node.category is Category.REDUCTION and node.operands[0] in below:
            raise ScheduleError("a reduction waits for that of a column", node.loc)
    return elements, columns


def _gpu(domain: Domain, inner: int, vector: int, early: bool, device: DeviceSpec) -> ThreadMapping:
    """Args:
        early: much of what is reduced may be read before other launches have ended.
    """
    outer, length = domain.rows // max(inner, 1), domain.cols

    def blocks(across: int) -> int:
        return outer * ceil_div(inner, across * vector)

    across = _threads_for(ceil_div(inner, vector), GPU_ACROSS)
    while across > NARROW and blocks(across) < device.processors:
        across //= 2  # narrower tiles: more blocks, and fewer rows for each thread
    threads = GPU_THREADS
    if not isinstance(length, SymbolicDim) and not isinstance(inner, SymbolicDim):
        if length <= SHORT and blocks(GPU_THREADS) >= MANY_BLOCKS * device.processors and inner >= GPU_THREADS * vector:
            across = GPU_THREADS  # each thread reduces columns of its own, and none waits for another
        while min(NARROWEST, FEWEST_COLUMNS // vector) < across <= NARROW and (
                blocks(across) < device.processors // 4 and length >= 2 * threads // across):
            across //= 2
        long = length > MOST_STEPS * (threads // across)
        if long and not early and blocks(across) <= FEW_BLOCKS * device.processors:
            threads = MORE_THREADS
    down = _threads_for(length, threads // across)
    return ThreadMapping(blocks(across), across * down, across, down, vector, 0, columns=True, warp=device.warp)


def rows_before_stores(schedule: KernelSchedule) -> int:
    """Rows whose loads a GPU's thread makes before it stores what becomes of them: compilers move no load before a
    store. One where neighbours are read besides, whose loads are many."""
    domain, mapping, inner = schedule.domain, schedule.mapping, schedule.dominant.operands[0].type.dims[-1]
    if isinstance(domain.cols, SymbolicDim) or isinstance(inner, SymbolicDim):
        return 1
    reads = schedule.pattern.reads()
    if any(domain.rows < x.type.numel < domain.rows * domain.cols and x.type.dims[-1] == inner for x in reads):
        return 1
    tensors = sum(x.type.numel >= domain.rows * domain.cols for x in reads)
    rows = schedule.together or schedule.rows_before_stores
    while rows > 1 and (rows * tensors * mapping.vector > MOST_TOGETHER
                        or 2 * rows * (mapping.threads // mapping.row_threads) > domain.cols):
        rows //= 2
    return rows


def _threads_for(n: int, most: int) -> int:
    """A power of two that covers n, up to `most`."""
    return most if isinstance(n, SymbolicDim) else min(most, 1 << max(0, (n - 1).bit_length()))
