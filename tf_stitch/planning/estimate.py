"""A first guess of a pattern's time, from its nodes alone: no schedule, no kernel. The planner scales it by exact times
of single nodes and confirms whatever it chooses."""

from __future__ import annotations

from tf_stitch.device.profile import interpolate
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.planning.stitch_plan import Pattern

ADDITIONS = 2.0
"""Additions that take as long as a unit of op cost, index arithmetic included: a median over the kernels of
models/scripts."""


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
    profile = device.profile
    rate = profile.rate("float32", OpKind.ADD.value, 1) * (1 if device.is_gpu else device.processors)
    memory = moved / interpolate(profile.bandwidth, moved) if moved else 0.0
    return profile.launch_us + max(memory, (ADDITIONS * work + products) / rate) * 1e-3
