"""Applies a template to a pattern: its schedule with the template's tiling, or why it cannot have that.

What a template leaves open stays as the rule has it. Limits of the hardware are held here; whether registers suffice
shows when the kernel is lowered (template_kernels.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.sizes import Size, ceil_div
from tf_stitch.schedule.kernel_schedule import KernelSchedule, Rule, ThreadMapping
from tf_stitch.schedule.read_tiling import COUNTED, LOOP, read_tilings
from tf_stitch.schedule.row_tiling import tile_rows
from tf_stitch.schedule.rules.row_reduction import MAX_THREADS
from tf_stitch.schedule.rules.transpose import TILE
from tf_stitch.schedule.schemes import WARP
from tf_stitch.schedule.templates import ANY_OP, OpSchedule, Template
from tf_stitch.schedule.tilings import extents_of, in_block_memory, layout_of, on_gpu, op_labels, tilings_of
from tf_stitch.schedule.vector_width import vector_width


@dataclass(frozen=True)
class Request:
    """What a template asks of a kernel.

    Attributes:
        numbers: extents of slots; None: as the rule has it.
        shared: values to keep in memory of the block; None: the template is for any op, and keeps all or none.
        keeps: whether such a template has S.
    """

    numbers: Mapping[str, int | None]
    shared: frozenset[Node] | None
    keeps: bool

    def extent(self, name: str, otherwise: int) -> int:
        extent = self.numbers[name]
        return otherwise if extent is None else extent

    def wants(self, node: Node) -> bool:
        """Whether a value is to be kept in memory of the block."""
        return self.keeps if self.shared is None else node in self.shared


def apply_template(template: Template, schedule: KernelSchedule, device: DeviceSpec, aligned: bool) -> KernelSchedule:
    """The schedule with the template's tiling.

    Args:
        schedule: what the rules made of the pattern; not a joined one.
        aligned: every buffer starts at a multiple of 16 bytes.

    Raises:
        ScheduleError: the pattern cannot have it; the message names the node.
    """
    where = schedule.dominant.loc
    if schedule.rule is Rule.GROUPS:
        raise ScheduleError("joined kernels have the templates of their groups", where)
    if any(isinstance(n, Size) for n in (schedule.domain.rows, schedule.domain.cols)):
        raise ScheduleError("sizes change, and the kernel serves them all: it has no template of its own", where)
    request = _request(template, schedule)
    retile = (_GPU if on_gpu(schedule) else _CPU)[schedule.rule]
    tiled = retile(schedule, request, device)
    _require_vector(tiled, schedule, aligned)
    if not 1 <= tiled.mapping.threads <= MAX_THREADS:
        raise ScheduleError(f"a block of {tiled.mapping.threads} threads", where)
    _require_counts(tiled, request)
    missing = (request.shared or frozenset()) - set(in_block_memory(tiled))
    if missing:
        node = min(missing, key=schedule.pattern.nodes.index)
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
    if not on_gpu(tiled) or vector == 1:
        return
    run = schedule.dominant.operands[0].type.dims[-1] if tiled.rule is Rule.COLUMN else tiled.domain.cols
    most = vector_width(tiled.pattern, run, aligned)
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


def _rows(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    return tile_rows(schedule, request.numbers, request.wants, device)


def _elementwise(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    m = schedule.mapping
    threads, vector = request.extent("threads", m.threads), request.extent("vector", m.vector)
    items = request.extent("items", m.items) or m.items
    return _mapped(schedule, threads=threads, vector=vector, items=items,
                   grid=ceil_div(schedule.domain.cols, threads * vector * items))


def _column(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    m, inner = schedule.mapping, schedule.dominant.operands[0].type.dims[-1]
    across, vector = request.extent("row_threads", m.row_threads), request.extent("vector", m.vector)
    down = request.extent("down", m.threads // m.row_threads)
    sums = [n for n in schedule.pattern.nodes if n.category is Category.REDUCTION]
    if down > 1 and sum(n.type.dtype.compute.size for n in sums) * across * down * vector > device.shared_bytes:
        raise ScheduleError("the block's sums do not fit into its memory", schedule.dominant.loc)
    outer = schedule.domain.rows // max(inner, 1)
    return _mapped(schedule, threads=across * down, row_threads=across, rows_per_block=down, vector=vector,
                   grid=outer * ceil_div(inner, across * vector))


def _mixed(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    m = schedule.mapping
    _keep(schedule, request, "rows_per_block", m.rows_per_block, "rows of a partial sum")
    threads, vector = request.extent("row_threads", m.threads), request.extent("vector", m.vector)
    items = ceil_div(schedule.domain.cols, threads * vector)
    if request.extent("items", items) != items:
        raise ScheduleError(f"{threads} threads and accesses of {vector} take a row in {items}", schedule.dominant.loc)
    if threads % WARP or threads & (threads - 1):
        raise ScheduleError(f"rows of {threads} threads; powers of two from {WARP} can be", schedule.dominant.loc)
    return _mapped(schedule, threads=threads, row_threads=threads, vector=vector, items=items)


def _transpose(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    m = schedule.mapping
    _keep(schedule, request, "row_threads", m.row_threads, "elements of a tile's row")
    down = request.extent("down", m.threads // m.row_threads)
    if TILE % down:
        raise ScheduleError(f"{down} rows of a tile of {TILE} at a time", schedule.dominant.loc)
    return _mapped(schedule, threads=down * m.row_threads)


def _scan(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    threads = request.extent("threads", schedule.mapping.threads)
    return _mapped(schedule, threads=threads, rows_per_block=threads, grid=ceil_div(schedule.domain.rows, threads))


def _cpu_elementwise(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    if schedule.domain.rows > 1:
        return schedule
    chunk = min(request.extent("tile", schedule.mapping.items) or schedule.mapping.items, schedule.domain.cols)
    return _mapped(schedule, items=chunk, grid=ceil_div(schedule.domain.cols, chunk))


def _cpu_column(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    inner = schedule.dominant.operands[0].type.dims[-1]
    tile = min(request.extent("tile", schedule.mapping.vector) or schedule.mapping.vector, inner)
    return _mapped(schedule, vector=tile, grid=schedule.domain.rows // inner * ceil_div(inner, tile))


def _cpu_fixed(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    """A rule of one tiling: others are refused."""
    if schedule.rule is Rule.TRANSPOSE:
        _keep(schedule, request, "tile", TILE, "elements of a tile's row")
    if schedule.rule is Rule.MIXED:
        _keep(schedule, request, "rows_per_block", schedule.mapping.rows_per_block, "rows of a partial sum")
    return schedule


def _keep(schedule: KernelSchedule, request: Request, slot: str, number: int, what: str) -> None:
    """A number that the pattern or the lowering decides."""
    if request.extent(slot, number) not in (LOOP, number):
        raise ScheduleError(f"{request.numbers[slot]} {what}: here they are {number}", schedule.dominant.loc)


def _mapped(schedule: KernelSchedule, **changes: int) -> KernelSchedule:
    mapping: ThreadMapping = replace(schedule.mapping, **changes)
    threads = mapping.threads
    if on_gpu(schedule) and threads % WARP and threads != schedule.mapping.threads:
        raise ScheduleError(f"a block of {threads} threads; warps have {WARP}", schedule.dominant.loc)
    return replace(schedule, mapping=mapping)


_Retile = Callable[[KernelSchedule, Request, DeviceSpec], KernelSchedule]
_GPU: Mapping[Rule, _Retile] = {
    Rule.ROW: _rows, Rule.ELEMENTWISE: _elementwise, Rule.COLUMN: _column, Rule.MIXED: _mixed,
    Rule.TRANSPOSE: _transpose, Rule.SCAN: _scan}
_CPU: Mapping[Rule, _Retile] = {
    Rule.ROW: _rows, Rule.ELEMENTWISE: _cpu_elementwise, Rule.COLUMN: _cpu_column, Rule.MIXED: _cpu_fixed,
    Rule.TRANSPOSE: _cpu_fixed, Rule.SCAN: _cpu_fixed}
