"""How long kernels take beyond what their bytes and operations say: what predictions are made with."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.device import follows as by
from tf_stitch.device.numbers import number


@dataclass(frozen=True)
class KernelNumbers:
    """Numbers of all kernels. Those of a CPU are named so; all others but `overlap` are a GPU's.

    Attributes:
        overlap: part of the shorter times (memory, arithmetic, waiting) that hides behind the longest.
        lone_overlap: where all blocks run at once, and so load, compute and store at the same times, unless they
            prefetch.
        turn_overlap: where blocks do these in turn: matmuls by warpgroups of blocks alone.
        line_additions: that a processor's lanes make in the time in which it looks up a line of its first cache.
        saturating_threads: of a processor, from which arithmetic runs at full rate.
        usual_together: elements of a loop under way, of which a thread that has more does the work of several.
        scattered_additions: in the time of a load whose thread and those beside it read other lines of the first cache.
        sweep_loss: what a grid loop over more than the last cache holds takes longer than a launch: as many blocks as
            are resident start, wait and end together.
        cache_kept: part of the last cache that still holds what a phase touched last, when the next one goes backwards.
        cluster_us: a cluster barrier, and sending before it.
        depthwise_us: of the least kernel of ours for a depthwise convolution.
        depthwise_in_registers: its multiplications where neighbouring windows are kept in registers.
        depthwise_in_columns: by sums of columns.
        depthwise_of_filters: of gradients of filters by those.
        near_bytes: CPU: what its first cache surely holds.
        cycles_per_ns: CPU: only where an estimate asks whether a kernel is inlined.
    """

    overlap: float = number("part")
    lone_overlap: float = number("part")
    turn_overlap: float = number("part")
    line_additions: int = number("additions")
    saturating_threads: int = number("threads")
    usual_together: int = number("elements")
    scattered_additions: int = number("additions")
    sweep_loss: float = number("times")
    cache_kept: float = number("part")
    cluster_us: float = number("us", by.barrier_us)
    depthwise_us: float = number("us", by.launch_us)
    depthwise_in_registers: float = number("part of additions")
    depthwise_in_columns: float = number("part of additions")
    depthwise_of_filters: float = number("part of additions")
    near_bytes: int = number("bytes")
    cycles_per_ns: float = number("cycles / ns")


@dataclass(frozen=True)
class MatmulNumbers:
    """Numbers of kernels that multiply matrices by tensor cores.

    Attributes:
        tensor_rate: multiplications with additions by mma.sync in TF32, of a processor.
        tensor_threads: of a processor, from which its tensor cores are busy.
        warpgroup_times: how much faster tensor cores multiply half types by wgmma than by mma.sync.
        warpgroup_rate: multiplications with additions of half types where warpgroups multiply, of a processor.
        warpgroup_gbps: what a processor gets from the last cache where blocks alone multiply by warpgroups.
        block_start_us: of blocks alone whose warpgroups multiply, before the first terms are there.
        round_us: of such blocks that a processor has at a time, until their first operands are there and after their
            last terms.
        pair_gbps: what a processor gets from the last cache where pairs of blocks copy boxes.
        pair_start_us: what a launch of pairs takes before the first and behind the last.
        few_rows_gbps: what a processor gets from the last cache in matmuls of few rows.
        few_rows_block_us: of each block of such a matmul that a processor has, besides what it reads.
        most_sharers: blocks of a cluster that share the terms of a tile.
        term_ns: a library: of a tile of 128 x 128, for each term of its sums, in float32 by TF32.
        joining_us: of the kernel that puts matrices side by side.
    """

    tensor_rate: float = number("10^9 / s", by.processor_tensor_rate)
    tensor_threads: int = number("threads")
    warpgroup_times: float = number("times")
    warpgroup_rate: float = number("10^9 / s", by.processor_tensor_rate)
    warpgroup_gbps: float = number("10^9 bytes / s", by.processor_gbps)
    block_start_us: float = number("us", by.trip_us)
    round_us: float = number("us", by.trip_us)
    pair_gbps: float = number("10^9 bytes / s", by.processor_gbps)
    pair_start_us: float = number("us", by.trip_us)
    few_rows_gbps: float = number("10^9 bytes / s", by.processor_gbps)
    few_rows_block_us: float = number("us", by.trip_us)
    most_sharers: int = number("blocks")
    term_ns: float = number("ns", by.processor_tensor_ns)
    joining_us: float = number("us", by.launch_us)
