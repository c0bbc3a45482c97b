"""A running sum, or product, along the last axis and the element-wise producers of what it sums: one thread walks one
row."""

from __future__ import annotations

from collections.abc import Iterator
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
from tf_stitch.planning.stitch_plan import Pattern
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, ThreadMapping
from tf_stitch.schedule.templates import LevelKind

NAME = "scan"


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
    threads = most if device.simt else 1
    mapping = ThreadMapping(ceil_div(rows, threads), threads, 1, threads, 1, 0, warp=device.warp)
    return [KernelSchedule(NAME, pattern, node, Domain(rows, cols), mapping)]


def lower_scan(schedule: KernelSchedule) -> LoweredKernel:
    """The kernel of a scan schedule; producers of the scanned value are computed in the loop."""
    buffers = BufferTable(schedule.pattern)
    out = ScopedEmitter(buffers.size)
    evaluator = Evaluator(schedule, buffers, out)
    m, domain, node = schedule.mapping, schedule.domain, schedule.dominant
    attrs, operand = cast(ScanAttrs, node.attrs), node.operands[0]
    row = var(Var(k.BLOCK, m.grid)) * m.threads + var(Var(k.THREAD, m.threads))
    step = Var("step", domain.cols)
    position = var(step) * -1 + (domain.cols - 1) if attrs.reverse else var(step)
    flat = row * domain.cols + position
    buffer, total = buffers.writing(node), out.fresh("acc")
    combine = OpKind.PROD if node.kind is OpKind.CUMPROD else OpKind.SUM
    with out.when(None if m.grid * m.threads == domain.rows else k.InRange(row, 0, domain.rows)):
        out.emit(k.Accumulator(total, node.type.dtype.compute, int(combine is OpKind.PROD)))
        with out.loop(step, k.Loop.SERIAL):
            value = evaluator.value(operand, delinearize(flat, operand.type.dims))
            result = k.Local(total, node.type.dtype.compute)
            stores: list[k.Stmt] = [k.Update(total, combine, value), k.Store(buffer, flat, result)]
            for stmt in reversed(stores) if attrs.exclusive else stores:
                out.emit(stmt)
    return finish(schedule, out, buffers)


def _retile(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    threads = request.extent("threads", schedule.mapping.threads)
    return mapped(schedule, threads=threads, rows_per_block=threads, grid=ceil_div(schedule.domain.rows, threads))


def _candidates(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    for block in powers(device.warp, 256):
        yield f"*[GRID-CTA_{block},THREAD];"


_BLOCKS = Tilings(((GRID, Slot(LevelKind.CTA, "threads", always=True)), (STEPS,)), _retile, _candidates)
_TASKS = Tilings(((GRID,), (STEPS,)), fixed)

SCAN = KernelFamily(NAME, propose_scan, lower_scan, by_threads(_BLOCKS, _TASKS))
