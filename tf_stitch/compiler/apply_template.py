"""Applies a template to a pattern: its schedule with the template's tiling, or why it cannot have that.

What a template leaves open stays as the family has it. Limits of the hardware are held here; whether registers suffice
shows when the kernel is lowered (template_kernels.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tf_stitch.compiler.read_tiling import COUNTED, read_tilings
from tf_stitch.compiler.tilings import extents_of, in_block_memory, layout_of, tilings_of
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.family import LOOP, Request
from tf_stitch.families.registry import family_of
from tf_stitch.ir.graph import Node
from tf_stitch.ir.symbolic_dims import SymbolicDim, ceil_div
from tf_stitch.schedule.kernel_schedule import MAX_THREADS, KernelSchedule
from tf_stitch.schedule.op_labels import op_labels
from tf_stitch.schedule.vector_width import vector_width
from tf_stitch.templates import ANY_OP, OpSchedule, Template


def apply_template(template: Template, schedule: KernelSchedule, device: DeviceSpec, aligned: bool) -> KernelSchedule:
    """The schedule with the template's tiling.

    Args:
        schedule: what the families made of the pattern; not a cooperative one.
        aligned: every buffer starts at a multiple of 16 bytes.

    Raises:
        ScheduleError: the pattern cannot have it; the message names the node.
    """
    where = schedule.dominant.loc
    if schedule.groups:
        raise ScheduleError("cooperatively fused kernels have the templates of their groups", where)
    if any(isinstance(n, SymbolicDim) for n in (schedule.domain.rows, schedule.domain.cols)):
        raise ScheduleError("sizes change, and the kernel serves them all: it has no template of its own", where)
    request = _request(template, schedule)
    tiled = family_of(schedule).tilings(schedule).retile(schedule, request, device)
    _require_vector(tiled, schedule, aligned)
    if not 1 <= tiled.mapping.threads <= MAX_THREADS:
        raise ScheduleError(f"a block of {tiled.mapping.threads} threads", where)
    _require_counts(tiled, request)
    missing = (request.shared or frozenset()) - set(in_block_memory(tiled))
    if missing:
        node = next(n for n in op_labels(schedule.pattern) if n in missing)
        raise ScheduleError(f"{node.kind.value} does not go through memory of the block (S)", node.loc)
    return tiled


def _request(template: Template, schedule: KernelSchedule) -> Request:
    labels = {label: node for node, label in op_labels(schedule.pattern).items()}
    ops, where = template.schedules, schedule.dominant.loc
    unknown = [op.op for op in ops if op.op != ANY_OP and op.op not in labels]
    if unknown:
        raise ScheduleError(f"the kernel has no {', '.join(unknown)}; its ops are {', '.join(labels)}", where)
    numbers = [read_tilings(op.dims, schedule) for op in ops]
    differs = next((op.op for op, n in zip(ops, numbers, strict=True) if n != numbers[0]), None)
    if differs is not None:
        raise ScheduleError(f"{differs} has another tiling than {ops[0].op}: ops of a kernel share one",
                            labels[differs].loc if differs in labels else where)
    return Request(numbers[0], *_kept(ops, labels))


def _kept(ops: Sequence[OpSchedule], labels: Mapping[str, Node]) -> tuple[frozenset[Node] | None, bool]:
    shared = any(op.shared for op in ops)
    if any(op.op == ANY_OP for op in ops):
        return None, shared
    return frozenset(labels[op.op] for op in ops if op.shared), shared


def _require_vector(tiled: KernelSchedule, schedule: KernelSchedule, aligned: bool) -> None:
    vector = tiled.mapping.vector
    if not tiled.in_blocks or vector == 1:
        return
    most = vector_width(tiled.pattern, extents_of(tiled)[-1], aligned)
    if vector > most or vector & (vector - 1):
        raise ScheduleError(f"accesses of {vector} elements; they may have {most} at most, and powers of two",
                            tiled.dominant.loc)


def _require_counts(tiled: KernelSchedule, request: Request) -> None:
    """Blocks and steps that are numbered are those that the other levels leave."""
    for number, (extent, tiling, slots) in enumerate(
            zip(extents_of(tiled), tilings_of(tiled), layout_of(tiled), strict=True)):
        each = math.prod(level.extent or 1 for level in tiling)
        for slot in slots:
            given = request.numbers[f"{slot.name} {number}"] if slot.name in COUNTED else None
            if given not in (None, LOOP, 1) and given != ceil_div(extent, each):
                raise ScheduleError(f"{slot.kind.value}_{given} where {extent} elements in tiles of {each} take "
                                    f"{ceil_div(extent, each)}", tiled.dominant.loc)
