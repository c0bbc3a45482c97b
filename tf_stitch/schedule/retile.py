"""A schedule with other numbers in its tiling, rule by rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.schedule.kernel_schedule import KernelSchedule, Rule, ThreadMapping
from tf_stitch.schedule.prefetch import prefetches_rows
from tf_stitch.schedule.row_tiling import tile_rows
from tf_stitch.schedule.rules.transpose import TILE
from tf_stitch.schedule.tilings import on_gpu


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


def retile(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    """The schedule as requested.

    Raises:
        ScheduleError: its rule has no such tiling.
    """
    return (_GPU if on_gpu(schedule) else _CPU)[schedule.rule](schedule, request, device)


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
    if threads % m.warp or threads & (threads - 1):
        raise ScheduleError(f"rows of {threads} threads; powers of two from {m.warp} can be", schedule.dominant.loc)
    mapped = _mapped(schedule, threads=threads, row_threads=threads, vector=vector, items=items)
    return replace(mapped, ahead=prefetches_rows(mapped, device))


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
    chunk = min(request.extent("tile", schedule.mapping.items), schedule.domain.cols)
    return _mapped(schedule, items=chunk, grid=ceil_div(schedule.domain.cols, chunk))


def _cpu_column(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    inner = schedule.dominant.operands[0].type.dims[-1]
    tile = min(request.extent("tile", schedule.mapping.vector), inner)
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
    if request.extent(slot, number) != number:
        raise ScheduleError(f"{request.numbers[slot]} {what}: here they are {number}", schedule.dominant.loc)


def _mapped(schedule: KernelSchedule, **changes: Any) -> KernelSchedule:
    mapping: ThreadMapping = replace(schedule.mapping, **changes)
    threads = mapping.threads
    if on_gpu(schedule) and threads % mapping.warp and threads != schedule.mapping.threads:
        raise ScheduleError(f"a block of {threads} threads; warps have {mapping.warp}", schedule.dominant.loc)
    return replace(schedule, mapping=mapping)


_Retile: TypeAlias = Callable[[KernelSchedule, Request, DeviceSpec], KernelSchedule]
_GPU: Mapping[Rule, _Retile] = {
    Rule.ROW: _rows, Rule.ELEMENTWISE: _elementwise, Rule.COLUMN: _column, Rule.MIXED: _mixed,
    Rule.TRANSPOSE: _transpose, Rule.SCAN: _scan}
_CPU: Mapping[Rule, _Retile] = {
    Rule.ROW: _rows, Rule.ELEMENTWISE: _cpu_elementwise, Rule.COLUMN: _cpu_column, Rule.MIXED: _cpu_fixed,
    Rule.TRANSPOSE: _cpu_fixed, Rule.SCAN: _cpu_fixed}
