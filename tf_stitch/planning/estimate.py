"""A first guess of a pattern's time, from its nodes alone: no schedule, no kernel. The planner scales it by exact times
of single nodes and confirms whatever it chooses."""

from __future__ import annotations

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.op_kinds import Category
from tf_stitch.planning.stitch_plan import Pattern

CPU_CYCLES, GPU_CYCLES = 0.2, 2.0
"""Cycles of a kernel per element and unit of op cost: vector loops on a CPU; a thread's index arithmetic on a GPU.
Medians over the kernels of models/scripts."""
CPU_LANES = 16
"""Terms of a product that a core sums in a cycle."""


def estimate_us(pattern: Pattern, device: DeviceSpec) -> float:
    """Microseconds of one launch: the larger of its traffic and its arithmetic."""
    moved = sum(n.type.nbytes for n in pattern.reads()) + sum(n.type.nbytes for n in pattern.outputs)
    work = products = 0
    for node in pattern.nodes:
        elements = node.operands[0].type.numel if node.category is Category.REDUCTION else node.type.numel
        work += (1 + node.info.cost) * elements
        if isinstance(node.attrs, DotAttrs):
            terms = node.operands[0].type.dims[-2 if node.attrs.transpose_a else -1]
            products += node.type.numel * terms
    cycles = work * GPU_CYCLES + products if device.is_gpu else work * CPU_CYCLES + products / CPU_LANES
    memory = (moved + device.saturation_bytes) / (device.bandwidth_gbps * 1e3)
    return device.launch_us + max(memory, cycles / device.cycles_per_us)
