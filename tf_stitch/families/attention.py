"""Attention, its scores in registers: matmuls by tensor cores, keys and values through shared memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.family import ACROSS, GRID, ITEMS, STEPS, KernelFamily, Request, Slot, Tilings
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.matrices import contiguous_strides
from tf_stitch.ir.op_attrs import TransposeAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.attention import WORD, AttentionShape, AttentionTiling, Rows, SingleQueryTiling, shared_words
from tf_stitch.kernel_ir.index import Var, constant, delinearize, linearize, var
from tf_stitch.kernel_ir.occupancy import blocks_that_fit
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.evaluate import Evaluator, MultiIndex
from tf_stitch.lowering.kernel import LoweredKernel, finish
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.planning.attention import Attention, Operand, even_stride, memory_of, reads_rows
from tf_stitch.planning.pattern import Pattern
from tf_stitch.planning.pattern_kind import attention_of
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, ThreadMapping
from tf_stitch.schedule.vector_width import VECTOR_BYTES
from tf_stitch.templates import LevelKind

NAME = "attention"

WIDEST = 128
"""Columns of an operand: a thread has those of two rows of queries and results in registers."""
LEAST_REGISTERS, OWN_REGISTERS = 128, 48
"""Of a thread: with fewer resident blocks, whose threads had more, kernels took a tenth longer on an H200. And beside
its queries, results and scores: with less, kernels spilled."""
FEW_QUERIES = 2
"""Of a matrix, up to which each has a block of its own: more would rather share the keys that are read."""
MOST_STEPS, MOST_WARPS = 8, 16
"""Of a block that has one query: keys that threads have under way, and warps."""
FEW_BLOCKS = 1.5
"""Blocks for each processor below which warps of a block share keys, not queries."""
QUERY_WARPS = 4
"""Of a block, with 16 queries each: with eight, fewer blocks fit beside each other (an H200, four shapes: causal ones
took 11 to 25 % longer, others from 3 % less to 7 % more)."""
MOST_BEYOND = 1.1
"""Tiles of 64 keys rather than 32 (5 to 13 % less time), unless they reach so much farther beyond the last key."""
TILES, SCORE, WEIGHT, MOST, TOTAL = "tiles", "score", "weight", "most", "total"


def propose_attention(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    """The schedule.

    Raises:
        ScheduleError: the pattern is none, or what the kernel cannot do.
    """
    attention = attention_of(pattern)
    if not isinstance(attention, Attention):
        raise ScheduleError("a matmul is a library call of its own")
    dtype, columns = attention.first.type.dtype, (attention.depth, attention.second.type.dims[-1])
    require(aligned, "operands that lie anywhere")
    *batch, rows, _ = attention.second.type.dims
    keys = attention.scores.type.dims[-1]
    require(math.prod(batch) * rows * keys > 0, "no elements")
    matrices = math.prod(batch)
    single = _single(rows, keys, columns, dtype, device)
    if single is None:
        require_matmuls(dtype, columns, device)
    require_rows(attention.operands, pattern)
    if single is not None:
        mapping = ThreadMapping(matrices * rows, single.threads, single.lanes, 1, 1, single.steps, warp=device.warp)
        return [KernelSchedule(NAME, pattern, attention.second, Domain(matrices * rows, keys), mapping,
                               array_room=device.shared_bytes)]
    tiling = _tiling(matrices, rows, keys, columns, device)
    blocks = matrices * tiling.parts(rows)
    registers = max(LEAST_REGISTERS, OWN_REGISTERS + (sum(columns) + tiling.warp_keys) // 2)
    shared = WORD * shared_words(keys, columns, dtype, tiling)
    resident = min(blocks_that_fit(tiling.threads, registers, shared, device), ceil_div(blocks, device.processors))
    mapping = ThreadMapping(blocks, tiling.threads, device.warp * tiling.key_warps, tiling.rows, 1,
                            tiling.warp_keys, warp=device.warp)
    return [KernelSchedule(NAME, pattern, attention.second, Domain(matrices * rows, keys), mapping,
                           array_room=device.shared_bytes, resident=resident)]


def tiling_of(mapping: ThreadMapping) -> AttentionTiling | SingleQueryTiling:
    """The tiling that a schedule's mapping stands for."""
    if mapping.rows_per_block == 1:
        return SingleQueryTiling(mapping.threads // mapping.warp, mapping.row_threads, mapping.items, mapping.warp)
    return AttentionTiling(mapping.rows_per_block // 16, mapping.row_threads // mapping.warp, mapping.items,
                           mapping.warp)


def _single(queries: int, keys: int, columns: tuple[int, int], dtype: DType, device: DeviceSpec
            ) -> SingleQueryTiling | None:
    """A block for each query, of as many warps as have keys; None for many queries, or rows that threads of a warp
    cannot share."""
    vector = VECTOR_BYTES // dtype.size
    lanes = 1 << (max(columns) // vector - 1).bit_length()
    shared = 0 < lanes <= device.warp and not any(n % vector for n in columns)
    if queries > FEW_QUERIES or not device.simt or not shared or dtype not in (DType.F32, DType.F16, DType.BF16):
        return None
    warps = 1
    while warps < MOST_WARPS and warps * device.warp // lanes * MOST_STEPS < keys:
        warps *= 2
    steps = min(MOST_STEPS, ceil_div(keys, warps * device.warp // lanes))
    return SingleQueryTiling(warps, lanes, steps, device.warp)


def _tiling(matrices: int, rows: int, keys: int, columns: tuple[int, int], device: DeviceSpec) -> AttentionTiling:
    """Four warps with queries of their own, which are many blocks; where that leaves processors without work, warps of
    a block share its keys."""
    if rows > 16 * (QUERY_WARPS - 1) and matrices * ceil_div(rows, 16 * QUERY_WARPS) >= FEW_BLOCKS * device.processors:
        few, many = 32, 64
        fits = sum(columns) <= WIDEST and even_tiles(keys, many, few)
        return AttentionTiling(QUERY_WARPS, 1, many if fits else few, device.warp)
    return AttentionTiling(1, 4, 32 if 64 < keys <= 128 else 16, device.warp)


def even_tiles(columns: int, many: int, few: int) -> bool:
    """Whether tiles of `many` columns reach about as far as those of `few`."""
    return ceil_div(columns, many) * many <= ceil_div(columns, few) * few * MOST_BEYOND


def require_matmuls(dtype: DType, columns: Sequence[int], device: DeviceSpec) -> None:
    """Raises ScheduleError unless tensor cores multiply rows of this many elements."""
    require(device.tensor_cores and device.async_copies, "no tensor cores for it")
    require(dtype in (DType.F16, DType.BF16) or (dtype is DType.F32 and device.tf32), f"matmuls of {dtype.value}")
    unit = 8 if dtype is DType.F32 else 16
    require(all(n % unit == 0 and n <= WIDEST for n in columns), f"rows of {columns[0]} and {columns[-1]}")


def require_rows(operands: Iterable[Operand], pattern: Pattern) -> None:
    """Raises ScheduleError unless the operands' rows can be read as they lie."""
    for operand in operands:
        memory, path = memory_of(operand, pattern.free)
        require(memory not in pattern.free and reads_rows(operand, path, memory), "an operand that lies otherwise")


def require(condition: bool, reason: str) -> None:
    """Raises ScheduleError for this reason unless the condition holds."""
    if not condition:
        raise ScheduleError(reason)


def lower_attention(schedule: KernelSchedule) -> LoweredKernel:
    """The kernel of an attention schedule."""
    attention = attention_of(schedule.pattern)
    assert isinstance(attention, Attention)
    buffers = BufferTable(schedule.pattern)
    out = ScopedEmitter(buffers.size)
    evaluator = Evaluator(schedule, buffers, out)
    q, k_, v = (buffers.reading(memory_of(o, schedule.pattern.free)[0]) for o in attention.operands)
    shape, tiling = _shape(attention, schedule), tiling_of(schedule.mapping)
    words = shared_words(shape.keys, (shape.depth, shape.width), shape.dtype, tiling)
    out.emit(k.Array(TILES, DType.F32, words, k.Space.SHARED))
    outer, head = Var("outer", shape.outer), Var("head", shape.heads)
    query, key = Var("query", shape.queries), Var("key", shape.keys)
    leading = attention.scores.type.dims[:-2]
    with out.element((outer, head, query, key), SCORE) as body:
        place = (*delinearize(var(outer) * shape.heads + var(head), leading), var(query), var(key))
        own = (*place[:-2], *(place[:-3:-1] if attention.keys_first else place[-2:]))
        evaluator.reduced[attention.first] = k.Local(SCORE, DType.F32), linearize(own, attention.first.type.dims)
        out.emit(k.Assign(SCORE, evaluator.value(attention.scores, place)))
    with out.element((outer, head, query, key), WEIGHT) as weigh:
        if not _only_rounds(attention):
            at = linearize(place, attention.probabilities.type.dims)
            evaluator.reduced[attention.probabilities] = k.Local(WEIGHT, DType.F32), at
            out.emit(k.Assign(WEIGHT, evaluator.value(attention.weights, place)))
    with out.element((outer, head, query), MOST, TOTAL) as keep:
        row = (*place[:-2], var(query))
        for scalar, node in ((MOST, attention.most), (TOTAL, attention.total)):
            evaluator.reduced[node] = k.Local(scalar, DType.F32), linearize(row, node.type.dims)
        store_rows(evaluator, row, [node for node in schedule.pattern.outputs if node is not attention.result])
    result = buffers.writing(attention.result)
    out.emit(k.Comment("a softmax of scores, queries times keys, weighs the values; each block has some queries",
                       schedule.pattern.names([attention.result])))
    out.emit(k.Attention(shape, tiling, q, k_, v, result, TILES, outer, head, query, key, SCORE, tuple(body),
                         MOST, TOTAL, tuple(keep), WEIGHT, tuple(weigh)))
    kernel = finish(schedule, out, buffers)
    return replace(kernel, program=replace(kernel.program, resident=schedule.resident))


def _only_rounds(attention: Attention) -> bool:
    """Whether weights are probabilities, rounded at most, as matmuls round their operands."""
    node = attention.weights
    while node.kind is OpKind.CAST:
        node = node.operands[0]
    return node is attention.probabilities


def store_rows(evaluator: Evaluator, row: MultiIndex, nodes: Iterable[Node]) -> None:
    """Stores values of one row each."""
    for node in nodes:
        at = (*row, constant(0))[:node.type.rank]
        value = evaluator.value(node, at)
        evaluator.out.emit(k.Store(evaluator.buffers.writing(node), linearize(at, node.type.dims), value))


def _shape(attention: Attention, schedule: KernelSchedule) -> AttentionShape:
    *leading, queries, width = attention.second.type.dims
    *_, keys = attention.scores.type.dims
    heads = leading[-1] if leading else 1
    rows = [operand_rows(operand, schedule.pattern) for operand in attention.operands]
    return AttentionShape(attention.first.type.dtype, math.prod(leading[:-1]), heads, queries, keys,
                          attention.depth, width,
                          rows[0], rows[1], rows[2], _result_rows(attention), attention.causal)


def operand_rows(operand: Operand, pattern: Pattern) -> Rows:
    """Where the matrices of an operand lie."""
    memory, path = memory_of(operand, pattern.free)
    strides = operand.strides(path, memory)
    assert strides is not None
    return as_rows(operand.dims, strides.axes, strides.offset)


def _result_rows(attention: Attention) -> Rows:
    strides = contiguous_strides(attention.result.type.dims)
    if isinstance(attention.result.attrs, TransposeAttrs):
        perm = attention.result.attrs.perm
        strides = [strides[perm.index(axis)] for axis in range(len(perm))]
    return as_rows(attention.second.type.dims, strides, 0)


def as_rows(dims: tuple[int, ...], strides: tuple[int, ...] | list[int], offset: int) -> Rows:
    """Rows of matrices of these dimensions, with this many elements between neighbours along each axis."""
    *leading, row, _ = strides
    return Rows(even_stride(dims[:-3], leading[:-1]), leading[-1] if leading else 0, row, offset)


def _retile(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    raise ScheduleError("attention has no template but its own", schedule.dominant.loc)


_TILINGS = Tilings(((GRID, Slot(LevelKind.CTA, "rows_per_block", always=True)), (STEPS, ACROSS, ITEMS)), _retile)

ATTENTION = KernelFamily(NAME, propose_attention, lower_attention, lambda schedule: _TILINGS, matmuls=True)
