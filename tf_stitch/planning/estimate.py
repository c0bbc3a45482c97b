"""A first guess of a pattern's time, from its nodes and the threads of its schedule: no kernel is made. The planner
scales it by exact times of single nodes and confirms whatever it chooses."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.device.profile import interpolate
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.convolutions import terms_of as convolution_terms
from tf_stitch.ir.graph import Node
from tf_stitch.ir.matrices import terms_of
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.op_kinds import CALLED, Category, OpKind
from tf_stitch.kernel_ir.cache_lines import CACHE_LINE_BYTES
from tf_stitch.kernel_ir.cost import INLINE_CYCLES
from tf_stitch.libraries.call import Library
from tf_stitch.libraries.registry import library_of
from tf_stitch.planning.pattern import Pattern
from tf_stitch.planning.repeated_work import repetitions

COLUMNS = 4
"""Of a thread, where a matmul is inlined."""


def estimate_us(pattern: Pattern, device: DeviceSpec, blocks: int, threads: int = 1, scattered: float = 0.0) -> float:
    """Microseconds of one launch: the larger of its traffic and its arithmetic.

    Args:
        blocks, threads: of its schedule: blocks (CPU: tasks), and threads of each.
        scattered: nanoseconds of loads that count as arithmetic, see `scattered_ns`.
    """
    profile, kernels = device.profile, device.profile.kernels
    times = repetitions(pattern)
    read = sum(n.type.nbytes * times.get(n, 1) for n in pattern.reads())
    moved = int(read) + sum(n.type.nbytes for n in pattern.outputs)
    memory = _memory_ns(moved, device)
    work = scattered + sum(_node_ns(node, device) * times.get(node, 1) for node in pattern.nodes)
    if device.simt:
        busy = min(1.0, max(blocks, 1) * threads / (device.processors * kernels.saturating_threads))
        return profile.launch_us + interpolate(profile.latency, moved) + max(memory, work / busy) * 1e-3
    launch = profile.launch_us
    if blocks == 1 or max(memory, work) < INLINE_CYCLES / kernels.cycles_per_ns:
        return launch + max(memory, work) * 1e-3
    cores = min(device.processors, blocks)
    return launch + profile.handover_us + max(memory, work) * 1e-3 / cores


def call_us(pattern: Pattern, libraries: Sequence[Library], device: DeviceSpec) -> float:
    """Microseconds of a library call, which has the whole device at work: as it was measured, or estimated where that
    was not done. What it reads and computes beside its root comes on top, for the root hides neither."""
    root = Pattern(pattern.nodes[:1], pattern.nodes[:1], pattern.free)
    known = set(root.reads())
    added = _memory_ns(sum(n.type.nbytes for n in pattern.reads() if n not in known), device)
    work = sum(_node_ns(n, device) for n in pattern.nodes if n.category is Category.ELEMENTWISE)
    added *= device.profile.library_calls.addend
    cores = device.processors if device.profile.per_core else 1
    library = library_of(pattern.nodes[0], libraries)
    alone = None if library is None else library.measured_us(pattern.nodes[0], device.profile)
    extra = library.epilogue_us if library is not None and work else 0.0
    if alone is None:
        alone = estimate_us(root, device, device.processors, device.profile.kernels.saturating_threads)
    return alone + extra + (added + work / cores) * 1e-3


def scattered_ns(pattern: Pattern, device: DeviceSpec) -> float:
    """Nanoseconds of loading the second matrices of a pattern's small matmuls, where the terms of a column lie side by
    side: threads beside each other, which have columns beside each other, find each a line of its own."""
    if not device.simt:
        return 0.0
    scattered, additions = 0.0, device.profile.kernels.scattered_additions
    for node in pattern.nodes:
        if isinstance(node.attrs, DotAttrs) and node.attrs.transpose_b:
            apart = COLUMNS * terms_of(node) * node.type.dtype.size
            scattered += additions * min(1.0, apart / CACHE_LINE_BYTES) * _node_ns(node, device)
    return scattered


def _memory_ns(nbytes: int, device: DeviceSpec) -> float:
    return nbytes / interpolate(device.profile.bandwidth, nbytes) if nbytes else 0.0


def _node_ns(node: Node, device: DeviceSpec) -> float:
    """Nanoseconds of its arithmetic: with all of a GPU, or with one core."""
    elements = node.operands[0].type.numel if node.category is Category.REDUCTION else node.type.numel
    kind = node.kind
    if node.category in CALLED:
        elements *= terms_of(node) if kind in (OpKind.DOT, OpKind.FLOAT8_DOT) else convolution_terms(node)
        kind = OpKind.ADD  # and a multiplication with it
    return elements / device.profile.rate(node.type.dtype.compute.value, kind.value, node.info.cost)
