"""Rule: attention, its scores in registers: products by tensor cores, keys and values through shared memory."""

from __future__ import annotations

import math

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.kernel_ir.attention import WORD, AttentionTiling, shared_words
from tf_stitch.kernel_ir.occupancy import blocks_that_fit
from tf_stitch.planning.attention import memory_of, reads_rows
from tf_stitch.planning.stitch_plan import Pattern, attention_of
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, ThreadMapping

NAME = "attention"

WIDEST = 128
"""Columns of an operand: a thread has those of two rows of queries and results in registers."""
LEAST_REGISTERS, OWN_REGISTERS = 128, 48
"""Of a thread: with fewer resident blocks, whose threads had more, kernels took a tenth longer on an H200. And beside
its queries, results and scores: with less, kernels spilled."""
FEW_BLOCKS = 1.5
"""Blocks for each processor below which warps of a block share keys, not queries."""


def propose_attention(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    """The schedule.

    Raises:
        ScheduleError: the pattern is none, or what the kernel cannot do.
    """
    attention = attention_of(pattern)
    if attention is None:
        raise ScheduleError("a product is a library call of its own")
    _require(device.tensor_cores and device.async_copies and aligned, "no tensor cores for it")
    dtype, columns = attention.first.type.dtype, (attention.depth, attention.second.type.dims[-1])
    _require(dtype in (DType.F16, DType.BF16) or (dtype is DType.F32 and device.tf32), f"products of {dtype.value}")
    unit = 8 if dtype is DType.F32 else 16
    _require(all(n % unit == 0 and n <= WIDEST for n in columns), f"rows of {columns[0]} and {columns[1]}")
    for operand in attention.operands:
        memory, path = memory_of(operand, pattern.free)
        _require(memory not in pattern.free and reads_rows(operand, path, memory), "an operand that lies otherwise")
    *batch, rows, _ = attention.second.type.dims
    keys = attention.scores.type.dims[-1]
    _require(math.prod(batch) * rows * keys > 0, "no elements")
    matrices = math.prod(batch)
    tiling = _tiling(matrices, rows, keys, device)
    blocks = matrices * tiling.parts(rows)
    registers = max(LEAST_REGISTERS, OWN_REGISTERS + (sum(columns) + tiling.warp_keys) // 2)
    shared = WORD * shared_words(keys, columns, dtype, tiling)
    resident = min(blocks_that_fit(tiling.threads, registers, shared, device), ceil_div(blocks, device.processors))
    mapping = ThreadMapping(blocks, tiling.threads, device.warp * tiling.key_warps, tiling.rows, 1,
                            tiling.warp_keys, warp=device.warp)
    return [KernelSchedule(NAME, pattern, attention.second, Domain(matrices * rows, keys), mapping,
                           array_room=device.shared_bytes, resident=resident)]


def tiling_of(mapping: ThreadMapping) -> AttentionTiling:
    """The tiling that a schedule's mapping stands for."""
    return AttentionTiling(mapping.rows_per_block // 16, mapping.row_threads // mapping.warp, mapping.items,
                           mapping.warp)


def _tiling(matrices: int, rows: int, keys: int, device: DeviceSpec) -> AttentionTiling:
    """Many queries in a block read each key once; where that leaves processors without work, few, and its warps share
    the keys."""
    for query_warps in (8, 4):
        blocks = matrices * ceil_div(rows, 16 * query_warps)
        if 16 * query_warps < rows + 16 and blocks >= FEW_BLOCKS * device.processors:
            return AttentionTiling(query_warps, 1, 32, device.warp)
    return AttentionTiling(1, 4, 32 if 64 < keys <= 128 else 16, device.warp)


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise ScheduleError(reason)
