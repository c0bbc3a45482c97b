"""A first guess of a pattern's time, from its nodes alone: no schedule, no kernel. The planner scales it by exact times
of single nodes and confirms whatever it chooses."""

from __future__ import annotations

from tf_stitch.device.profile import interpolate
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.matrices import terms_of
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.planning.stitch_plan import Pattern, is_library_call

ADDITIONS = 2.0
"""Additions that take as long as a unit of op cost, index arithmetic included: a median over the kernels of
models/scripts."""


def estimate_us(pattern: Pattern, device: DeviceSpec) -> float:
    """Microseconds of one launch: the larger of its traffic and its arithmetic."""
    if is_library_call(pattern) and len(pattern.nodes) > 1:
        return _call_us(pattern, device)
    moved = sum(n.type.nbytes for n in pattern.reads()) + sum(n.type.nbytes for n in pattern.outputs)
    work = products = 0
    for node in pattern.nodes:
        elements = node.operands[0].type.numel if node.category is Category.REDUCTION else node.type.numel
        work += (1 + node.info.cost) * elements
        if node.kind is OpKind.DOT:
            products += node.type.numel * terms_of(node)
    return device.profile.launch_us + max(_memory_us(moved, device), _arithmetic_us(work, products, device))


def _call_us(pattern: Pattern, device: DeviceSpec) -> float:
    """A library call with more than a product: what it reads and computes beside comes on top, for the product hides
    neither."""
    product = Pattern(pattern.nodes[:1], pattern.nodes[:1], pattern.free)
    known = set(product.reads())
    added = sum(n.type.nbytes for n in pattern.reads() if n not in known)
    work = sum((1 + n.info.cost) * n.type.numel for n in pattern.nodes if n.category is Category.ELEMENTWISE)
    return estimate_us(product, device) + _memory_us(added, device) + _arithmetic_us(work, 0, device)


def _memory_us(nbytes: int, device: DeviceSpec) -> float:
    return nbytes / interpolate(device.profile.bandwidth, nbytes) * 1e-3 if nbytes else 0.0


def _arithmetic_us(work: int, products: int, device: DeviceSpec) -> float:
    profile = device.profile
    rate = profile.rate("float32", OpKind.ADD.value, 1) * (1 if device.is_gpu else device.processors)
    return (ADDITIONS * work + products) / rate * 1e-3
