"""A running sum, or product, along the last axis and the element-wise producers of what it sums. One thread walks one
row; on a device that few rows would leave idle some threads walk parts of it, twice: to know what each part comes to,
and, when all do, to store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.candidates import powers
from tf_stitch.families.family import GRID, STEPS, KernelFamily, Request, Slot, Tilings, by_threads, fixed, mapped
from tf_stitch.ir.op_attrs import ScanAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim, ceil_div
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Var, delinearize, var
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.evaluate import Evaluator
from tf_stitch.lowering.kernel import LoweredKernel, finish
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, ThreadMapping
from tf_stitch.templates import LevelKind

NAME = "scan"
_LEAST_WALK = 4
"""Elements that a thread walks, at least."""


def propose_scan(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    """The scan schedule.

    Raises:
        ScheduleError: anything but one scan whose result is the only output.
    """
    scans = [n for n in pattern.nodes if n.category is Category.SCAN]
    if len(scans) != 1 or pattern.outputs != (scans[0],):
        raise ScheduleError("not a single scan")
    node = scans[0]
    cols = node.type.dims[-1]
    rows = node.type.numel // max(cols, 1)
    most = 128 if isinstance(rows, SymbolicDim) else min(128, max(device.warp, 1 << max(0, (rows - 1).bit_length())))
    parts = _parts(rows, cols, device)
    threads = (128 if parts > 1 else most) if device.simt else 1
    mapping = ThreadMapping(ceil_div(rows * parts, threads), threads, parts, threads // parts, 1, 0, warp=device.warp)
    return [KernelSchedule(NAME, pattern, node, Domain(rows, cols), mapping)]


def _parts(rows: int, cols: int, device: DeviceSpec) -> int:
    """Of a row, each of which a thread walks."""
    if not device.simt or isinstance(rows, SymbolicDim) or isinstance(cols, SymbolicDim):
        return 1
    idle = 4 * device.warp * device.processors // max(rows, 1)
    parts = min(device.warp, idle, cols // _LEAST_WALK)
    return 1 << max(0, parts.bit_length() - 1)


def lower_scan(schedule: KernelSchedule) -> LoweredKernel:
    """The kernel of a scan schedule; producers of the scanned value are computed in the loop."""
    buffers = BufferTable(schedule.pattern)
    out = ScopedEmitter(buffers.size)
    walk = _Walk(schedule, buffers, out)
    m, thread = schedule.mapping, var(Var(k.THREAD, schedule.mapping.threads))
    if m.row_threads == 1:
        with out.when(walk.exists), walk.elements() as (value, store):
            walk.add(value, store)
        return finish(schedule, out, buffers)
    sums, own = out.fresh("sums"), thread % m.row_threads
    out.emit(k.Array(sums, walk.dtype, m.threads, k.Space.SHARED))
    with out.when(walk.exists):
        with walk.elements() as (value, _):
            walk.add(value)
        out.emit(k.SetElement(sums, thread, walk.total))
    out.emit(k.Barrier())
    with out.when(walk.exists), out.forgetting():
        walk.begin()
        before = Var("before", m.row_threads)
        with out.loop(before, k.Loop.SERIAL), out.when(k.InRange(own - var(before), 1, m.row_threads)):
            walk.add(k.Element(sums, thread // m.row_threads * m.row_threads + var(before), walk.dtype))
        with walk.elements(first=False) as (value, store):
            walk.add(value, store)
    return finish(schedule, out, buffers)


class _Walk:
    """Of a thread along its row, or its part of one."""

    def __init__(self, schedule: KernelSchedule, buffers: BufferTable, out: ScopedEmitter) -> None:
        self._out, self._evaluator = out, Evaluator(schedule, buffers, out)
        m, self._domain, self._node = schedule.mapping, schedule.domain, schedule.dominant
        self._attrs = cast(ScanAttrs, self._node.attrs)
        thread = var(Var(k.THREAD, m.threads))
        self._row = var(Var(k.BLOCK, m.grid)) * m.rows_per_block + thread // m.row_threads
        self._steps = ceil_div(self._domain.cols, m.row_threads)
        self._first = thread % m.row_threads * self._steps
        self._all = m.row_threads * self._steps == self._domain.cols
        self._buffer = buffers.writing(self._node)
        self._combine = OpKind.PROD if self._node.kind is OpKind.CUMPROD else OpKind.SUM
        self.dtype = self._node.type.dtype.compute
        self.exists = None if m.grid * m.rows_per_block == self._domain.rows else k.InRange(self._row, 0,
                                                                                           self._domain.rows)

    def begin(self) -> None:
        """With nothing."""
        self._name = self._out.fresh("acc")
        self._out.emit(k.Accumulator(self._name, self.dtype, int(self._combine is OpKind.PROD)))

    @property
    def total(self) -> k.Expr:
        """What there is so far."""
        return k.Local(self._name, self.dtype)

    def add(self, value: k.Expr, store: Callable[[], k.Stmt] | None = None) -> None:
        """One more, stored with what was before it or with itself."""
        stmts = [k.Update(self._name, self._combine, value), *([store()] if store else [])]
        for stmt in reversed(stmts) if self._attrs.exclusive else stmts:
            self._out.emit(stmt)

    @contextmanager
    def elements(self, first: bool = True) -> Iterator[tuple[k.Expr, Callable[[], k.Stmt]]]:
        """Each element, and what stores the total in its place.

        Args:
            first: a total begins here.
        """
        if first:
            self.begin()
        step = Var("step", self._steps)
        place = self._first + var(step)
        with self._out.loop(step, k.Loop.SERIAL), \
                self._out.when(None if self._all else k.InRange(place, 0, self._domain.cols)):
            place = place if self._all else self._out.clamped("place", place, self._domain.cols)
            position = place * -1 + (self._domain.cols - 1) if self._attrs.reverse else place
            flat, operand = self._row * self._domain.cols + position, self._node.operands[0]
            yield (self._evaluator.value(operand, delinearize(flat, operand.type.dims)),
                   lambda: k.Store(self._buffer, flat, self.total))


def _retile(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    threads = request.extent("threads", schedule.mapping.threads)
    rows = threads // schedule.mapping.row_threads
    return mapped(schedule, threads=threads, rows_per_block=rows, grid=ceil_div(schedule.domain.rows, rows))


def _candidates(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    for block in powers(device.warp, 256):
        yield f"*[GRID-CTA_{block},THREAD];"


_BLOCKS = Tilings(((GRID, Slot(LevelKind.CTA, "threads", always=True)), (STEPS,)), _retile, _candidates)
_TASKS = Tilings(((GRID,), (STEPS,)), fixed)

SCAN = KernelFamily(NAME, propose_scan, lower_scan, by_threads(_BLOCKS, _TASKS))
