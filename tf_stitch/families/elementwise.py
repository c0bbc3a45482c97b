"""Outputs of equal size, each element computed by itself. Takes any single node that is no reduction or scan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.candidates import BLOCKS, vectors
from tf_stitch.families.family import (
    GRID,
    ITEMS,
    STEPS,
    TILE,
    VECTOR,
    KernelFamily,
    Request,
    Slot,
    Tilings,
    fixed,
    mapped,
)
from tf_stitch.ir.op_kinds import COLLECTED
from tf_stitch.ir.symbolic_dims import SymbolicDim, ceil_div, divides, order
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, delinearize, var
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.evaluate import Evaluator
from tf_stitch.lowering.kernel import LoweredKernel, finish
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.lowering.stores import ElementStores
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, ThreadMapping
from tf_stitch.schedule.vector_width import vector_width
from tf_stitch.templates import LevelKind

NAME = "elementwise"

CPU_CHUNK = 4096
"""Elements of a CPU task of a flat domain."""
CHUNKS = tuple(1 << n for n in range(9, 18))
"""Elements of a CPU task that templates try."""
GPU_THREADS = 256
BUSY = 4
"""One in this many processors has to have a block before a thread takes more than one element."""
ARRAY_REGISTERS = 224
"""Registers of a thread's vectors: of the zoo's kernels all with more spilled, and none with less."""


def propose_elementwise(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    """Schedules from the flattest domain to one of single-axis columns, and as the last resort the flat one again.

    Raises:
        ScheduleError: a reduction or scan in the pattern, or outputs of different sizes.
    """
    if any(n.category in COLLECTED for n in pattern.nodes):
        raise ScheduleError("a reduction or scan")
    sizes = {n.type.numel for n in pattern.outputs}
    if len(sizes) != 1:
        raise ScheduleError("outputs of different sizes")
    elements = sizes.pop()
    dominant = max(pattern.outputs, key=lambda n: n.type.rank)
    if device.simt:
        vector = _vector(elements, vector_width(pattern, elements, aligned), device)
        widths = [vector >> i for i in range(vector.bit_length())]  # narrower ones where vectors would spill
        return [KernelSchedule(NAME, pattern, dominant, Domain(1, elements),
                               ThreadMapping(ceil_div(elements, GPU_THREADS * width), GPU_THREADS, 1, 1, width, 1,
                                             warp=device.warp),
                               array_registers=ARRAY_REGISTERS if width > 1 else 0) for width in widths]
    columns = _column_counts(pattern, elements) if elements else []
    schedules = [KernelSchedule(NAME, pattern, dominant, Domain(elements // cols, cols),
                                _cpu_mapping(elements // cols, cols, device)) for cols in columns]
    schedules.append(KernelSchedule(NAME, pattern, dominant, Domain(1, elements),
                                    _cpu_mapping(1, elements, device), last_resort=True))
    return schedules


def _vector(elements: int, widest: int, device: DeviceSpec) -> int:
    """Elements that a thread has: fewer where few processors would have a block, but for a lone thread. What it does
    for each of them takes its time one after the other; where that needs branches, so do loads."""
    if isinstance(elements, SymbolicDim) or elements == widest:
        return widest
    width = widest
    while width > 1 and elements < GPU_THREADS * width * device.processors // BUSY:
        width //= 2
    return width


def _cpu_mapping(rows: int, cols: int, device: DeviceSpec) -> ThreadMapping:
    chunk = CPU_CHUNK if isinstance(cols, SymbolicDim) else max(min(cols, CPU_CHUNK), 1)
    return ThreadMapping(ceil_div(cols, chunk) if rows == 1 else rows, 1, 1, 1, 1, chunk, warp=device.warp)


def _column_counts(pattern: Pattern, elements: int) -> list[int]:
    """Sizes of trailing axes of the outputs and of values inside, the largest first."""
    counts = {elements}
    for dims in {node.type.dims for node in pattern.nodes}:
        size = 1
        for dim in reversed(dims):
            size *= dim
            if size != 1 and divides(size, elements):
                counts.add(size)
    return sorted(counts, key=order, reverse=True)


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


def _in_rows(schedule: KernelSchedule) -> bool:
    """Whether a task is a row."""
    return not schedule.in_blocks and schedule.domain.rows != 1


def _extents(schedule: KernelSchedule) -> tuple[int, ...]:
    rows, cols = schedule.domain.rows, schedule.domain.cols
    return (rows, cols) if _in_rows(schedule) else (cols,)


def _retile(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    m = schedule.mapping
    threads, vector = request.extent("threads", m.threads), request.extent("vector", m.vector)
    items = request.extent("items", m.items) or m.items
    return mapped(schedule, threads=threads, vector=vector, items=items,
                  grid=ceil_div(schedule.domain.cols, threads * vector * items))


def _candidates(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    for vector in vectors(schedule):
        for items in (1, 2, 4, 8):
            for block in BLOCKS:
                yield f"*[GRID-THREAD_{items}-CTA_{block}-THREAD_{vector}];"


def _retile_task(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    chunk = min(request.extent("tile", schedule.mapping.items), schedule.domain.cols)
    return mapped(schedule, items=chunk, grid=ceil_div(schedule.domain.cols, chunk))


def _task_candidates(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    yield from (f"*[GRID-THREAD_{chunk}];" for chunk in CHUNKS if chunk < 2 * schedule.domain.cols)


_BLOCKS = Tilings(((GRID, ITEMS, Slot(LevelKind.CTA, "threads", always=True), VECTOR),), _retile, _candidates)
_TASKS = Tilings(((GRID, TILE),), _retile_task, _task_candidates)
_ROWS = Tilings(((GRID,), (STEPS,)), fixed)


def _tilings(schedule: KernelSchedule) -> Tilings:
    if schedule.in_blocks:
        return _BLOCKS
    return _ROWS if _in_rows(schedule) else _TASKS


def _with_threads(schedule: KernelSchedule, threads: int) -> ThreadMapping:
    m = schedule.mapping
    return replace(m, threads=threads, grid=ceil_div(schedule.domain.cols, threads * m.vector * m.items))


def _with_items(schedule: KernelSchedule, items: int) -> KernelSchedule:
    more = replace(schedule, mapping=replace(schedule.mapping, items=items))
    return replace(more, mapping=_with_threads(more, more.mapping.threads))


ELEMENTWISE = KernelFamily(NAME, propose_elementwise, lower_elementwise, _tilings, _extents, in_place=True,
                           with_threads=_with_threads, with_items=_with_items)
