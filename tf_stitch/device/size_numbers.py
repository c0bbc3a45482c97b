"""Sizes from which something is worth while, and how kernels are tiled where tiles were chosen by trying."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.device import follows as by
from tf_stitch.device.numbers import number


@dataclass(frozen=True)
class SizeNumbers:
    """All but `order_bytes`, `in_place_bytes` and `cpu_sums` are a GPU's.

    Attributes:
        cycles_per_byte: operations, by the op table's costs, that are worth a byte not moved twice.
        order_bytes: that another order of kernels has to save. On a GPU kernels of one level that take or free as much
            wait for each other.
        early_bytes: of a kernel that asks for all it reads at once: memory moves them while a load waits.
        rows_before_stores: whose loads a thread of a kernel of columns makes before it stores what becomes of them.
        branch_bytes: of variables and values that a branch may make for nothing, where both sides are computed.
        branch_multiplications: of matmuls for nothing.
        in_place_bytes: of a value that a loop carries, of which rows are written in place: a smaller one may be copied
            sooner than scatters are launched.
        packed_elements: of a kernel that fills the device alone, and shares no launch.
        dear_cycles: of a value of a row from which a block shares it. Below, threads wait for memory longer than they
            compute it again.
        busy_blocks: for each processor, at least, before a block takes more rows of such values.
        turn_blocks, turn_threads, turn_elements: of a processor, of a block, and of a thread in registers, where blocks
            take long rows in turn and read the next one ahead.
        turn_times: as many such turns take no longer than one of rows in shared memory.
        wide_threads: up to which each thread of a block of rows and columns has one access of a row, not more.
        cpu_sums: CPU: sums of a task that the compiler keeps in vector registers.
    """

    cycles_per_byte: int = number("cycles / byte", by.additions_a_byte)
    order_bytes: int = number("bytes", by.launch_bytes)
    early_bytes: int = number("bytes", by.trip_bytes)
    rows_before_stores: int = number("rows")
    branch_bytes: int = number("bytes", by.memory_gbps)
    branch_multiplications: int = number("multiplications", by.additions)
    in_place_bytes: int = number("bytes", by.launch_bytes)
    packed_elements: int = number("elements", by.launch_bytes)
    dear_cycles: int = number("cycles")
    busy_blocks: int = number("blocks")
    turn_blocks: int = number("blocks")
    turn_threads: int = number("threads")
    turn_elements: int = number("elements")
    turn_times: int = number("times")
    wide_threads: int = number("threads")
    cpu_sums: int = number("sums")


@dataclass(frozen=True)
class HostNumbers:
    """What tf_stitch itself takes of a CPU.

    Attributes:
        load_seconds: estimate for loading what rewrites graphs, which the first function pays.
        node_seconds: estimate for a node of a function, before this process has built one: rewriting, planning and
            compiling.
        gpu_node_seconds: the same on GPUs, without the compilers: these run in threads of their own, on processors that
            such a program leaves idle.
    """

    load_seconds: float = number("s")
    node_seconds: float = number("s")
    gpu_node_seconds: float = number("s")
