"""What kernels read of a region's inputs is asked for before they wait for the kernels before them.

A chain of kernels that each read large matrices, such as a decoder's, leaves memory idle between two of them: while the
last blocks of one end, the next is launched, and its first loads come back. In a CUDA graph a kernel is started beside
the one that it depends on (native/cuda/graph_nodes.h). What the region's inputs hold is there before the first kernel,
so it may as well come to the cache by then; what is written to it later is written in that cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.graph import Node, view_of
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.kernel_ir.count_work import count_work
from tf_stitch.kernel_ir.nodes import Mode, Program
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.runtime.buffer_plan import Work

LEAST_BYTES = 1 << 16
"""Of a tensor; fewer are there at once."""


def fetch_ahead(works: Sequence[Work], device: DeviceSpec) -> list[Work]:
    """The work, with what kernels ask for ahead where the device can."""
    if not device.fetches_ahead:
        return list(works)
    return [_asking(work) if isinstance(work, LoweredKernel) else work for work in works]


def _asking(kernel: LoweredKernel) -> LoweredKernel:
    program = kernel.program
    if isinstance(program.grid, SymbolicDim) or not program.grid or program.looped or program.partitioned:
        return kernel
    there = {buffer.name for buffer, (node, mode) in zip(program.parameters, kernel.arguments, strict=True)
             if mode is Mode.READ and _comes_in(node)}
    whole = _read_as_a_whole(program)
    ahead = tuple(b.name for b in program.parameters if b.name in there & whole)
    return replace(kernel, program=replace(program, ahead=ahead)) if ahead else kernel


def _comes_in(node: Node) -> bool:
    """Whether a value is one of the region's inputs, and large."""
    return view_of(node).kind in (OpKind.INPUT, OpKind.VARIABLE) and node.type.is_static \
        and bool(node.type.nbytes >= LEAST_BYTES)


def _read_as_a_whole(program: Program) -> set[str]:
    """Buffers of which the kernel reads every element, as far as can be counted; not what is picked out of one."""
    threads, elements = program.grid * program.threads, dict[str, float]()
    for access in count_work(program).accesses:
        if not access.store and access.stride is not None:
            elements[access.buffer] = elements.get(access.buffer, 0.0) + threads * access.distinct
    sizes = {b.name: b.size for b in program.parameters}
    return {name for name, count in elements.items() if count >= sizes.get(name, float("inf"))}
