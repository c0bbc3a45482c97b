"""Lowers element-wise patterns: every output has the elements of the domain, each computed by itself."""

from __future__ import annotations

from tf_stitch.errors import ScheduleError
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, delinearize, var
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.evaluate import Evaluator
from tf_stitch.lowering.kernel import LoweredKernel, finish
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.lowering.stores import ElementStores
from tf_stitch.schedule.kernel_schedule import KernelSchedule


def lower_elementwise(schedule: KernelSchedule) -> LoweredKernel:
    """The kernel of an elementwise schedule. On a GPU threads cover the flat domain; on a CPU a task is a row, or a
    chunk of `items` columns where there is one row.

    Raises:
        ScheduleError: an output has another number of elements, or a CPU loop would divide indices per element.
    """
    elements = schedule.domain.rows * schedule.domain.cols
    for node in schedule.pattern.outputs:
        if node.type.numel != elements:
            raise ScheduleError(f"an output of {node.type} has not the domain's {elements} elements", node.loc)
    return _gpu(schedule, elements) if schedule.mapping.threads > 1 else _cpu(schedule)


def _gpu(schedule: KernelSchedule, elements: int) -> LoweredKernel:
    buffers = BufferTable(schedule.pattern)
    out = ScopedEmitter(buffers.size)
    m = schedule.mapping
    lane = Var("lane", m.vector) if m.vector > 1 else None
    item, chunks = Var("item", m.items), elements // m.vector
    chunk = (var(Var(k.BLOCK, m.grid)) * m.items + var(item)) * m.threads + var(Var(k.THREAD, m.threads))
    evaluator = Evaluator(schedule, buffers, out)
    inside = None if m.grid * m.threads * m.items == chunks else k.InRange(chunk, 0, chunks)
    with out.loop(item, k.Loop.UNROLL), out.when(inside):
        start = (chunk if inside is None else out.clamped("chunk", chunk, chunks)) * m.vector
        _store_all(schedule, evaluator, start, lane)
    return finish(schedule, out, buffers)


def _store_all(schedule: KernelSchedule, evaluator: Evaluator, start: Index, lane: Var | None) -> None:
    stores = ElementStores(evaluator)
    outputs = [(n, evaluator.buffers.writing(n)) for n in schedule.pattern.outputs]
    arrays = stores.declare(outputs, lane)
    with evaluator.out.loop(lane or Var("lane", 1), k.Loop.UNROLL):
        evaluator.lane = lane
        flat = start + (var(lane) if lane else 0)
        _evaluate_all(schedule, evaluator, flat)
        for node, buffer in outputs:
            stores.store(node, buffer, flat, lane, arrays)
        evaluator.lane = None
    stores.flush()


def _evaluate_all(schedule: KernelSchedule, evaluator: Evaluator, flat: Index) -> None:
    """Every load comes before the first store, so that variables may be updated in place."""
    for node in schedule.pattern.outputs:
        evaluator.value(node, delinearize(flat, node.type.dims))


def _cpu(schedule: KernelSchedule) -> LoweredKernel:
    buffers = BufferTable(schedule.pattern)
    out = ScopedEmitter(buffers.size)
    m, domain = schedule.mapping, schedule.domain
    evaluator = Evaluator(schedule, buffers, out)
    block = var(Var(k.BLOCK, m.grid))
    if domain.rows == 1:
        col = Var("col", m.items)
        rest = domain.cols - m.grid * m.items
        limit = None if rest == 0 else block * -m.items + domain.cols
        flat = block * m.items + var(col)
    else:
        col, limit = Var("col", domain.cols), None
        flat = block * domain.cols + var(col)
    with out.loop(col, k.Loop.SIMD, limit):
        stores = ElementStores(evaluator)
        _evaluate_all(schedule, evaluator, flat)
        for node in schedule.pattern.outputs:
            stores.store(node, buffers.writing(node), flat, None, {})
    kernel = finish(schedule, out, buffers)
    if not schedule.last_resort:
        _require_linear(kernel, col)
    return kernel


def _require_linear(kernel: LoweredKernel, over: Var) -> None:
    """ScheduleError unless every access is linear in `over`: a division in a vector loop is dearer than another
    split of the domain."""
    for index in _accesses(kernel.program.body):
        if index.coefficient(over) is None:
            raise ScheduleError(f"index {index} is not linear in the columns")


def _accesses(body: tuple[k.Stmt, ...]) -> list[Index]:
    found: list[Index] = []
    for stmt in body:
        if isinstance(stmt, k.For):
            found += _accesses(stmt.body)
        elif isinstance(stmt, k.If):
            found += _accesses(stmt.body) + _accesses(stmt.orelse) + _indices(stmt.condition)
        elif isinstance(stmt, k.Let | k.Assign):
            found += _indices(stmt.value)
        elif isinstance(stmt, k.Store):
            found += [stmt.index, *_indices(stmt.value)]
    return found


def _indices(expr: k.Expr) -> list[Index]:
    if isinstance(expr, k.Load | k.InRange | k.FromIndex):
        return [expr.index]
    return [i for a in expr.args for i in _indices(a)] if isinstance(expr, k.Apply) else []

