"""Rows that are combined by index, and the element-wise producers of what is scattered, computed where it is.

On a CPU each task has some rows of the result, and goes through all updates in order: the sums are TensorFlow's. On a
GPU all threads write what elements are before, wait for each other at a grid barrier, and then scatter by atomic
operations; several scatters share the launch and its barrier.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.family import GRID, STEPS, KernelFamily, Tilings, fixed
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ScatterAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim, ceil_div, divides
from tf_stitch.ir.types import static_shape
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, delinearize, linearize, var
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.evaluate import Evaluator, MultiIndex, aligned_index
from tf_stitch.lowering.groups import fuse_groups
from tf_stitch.lowering.kernel import LoweredKernel, finish
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, ThreadMapping

NAME = "scatter"

SPLIT = 1 << 15
"""Elements of the updates from which on a CPU's tasks share the rows: each of them reads all indices."""
THREADS = 256
RESIDENT = 4
"""Blocks of a processor, all of which are resident: they wait for each other."""


def propose_scatter(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    """One schedule.

    Raises:
        ScheduleError: something else than scatters is live-out, or the device cannot do it.
    """
    scatters = [n for n in pattern.nodes if n.category is Category.SCATTER]
    if not scatters or set(pattern.outputs) != set(scatters):
        raise ScheduleError("not scatters alone")
    if any(isinstance(n.attrs, ScatterAttrs) and n.attrs.rows_only for n in scatters):
        raise ScheduleError("rows that are written where they are computed")
    largest = max(scatters, key=lambda n: n.operands[2].type.numel)
    updates = largest.operands[2].type
    rows = _rows_of(largest)[0]
    cols = largest.type.numel // max(rows, 1)
    if not device.simt:
        if len(scatters) > 1:
            raise ScheduleError("several scatters")
        if isinstance(rows, SymbolicDim):
            raise ScheduleError("rows that are known at run time")
        small = isinstance(updates.numel, SymbolicDim) or updates.numel < SPLIT
        chunk = ceil_div(rows, 1 if small else min(device.processors, max(rows, 1)))
        mapping = ThreadMapping(ceil_div(rows, max(chunk, 1)), 1, 1, chunk, 1, 0, warp=device.warp)
        return [KernelSchedule(NAME, pattern, largest, Domain(rows, cols), mapping)]
    if not device.grid_barrier:
        raise ScheduleError("a device without grid barriers", largest.loc)
    grid = RESIDENT * device.processors
    sizes = [x.type.numel for n in scatters for x in (n, n.operands[2])]
    if not any(isinstance(n, SymbolicDim) for n in sizes):
        grid = max(min(ceil_div(max(sizes), THREADS), grid), 1)
    mapping = ThreadMapping(grid, THREADS, 1, 1, 1, 0, warp=device.warp)
    return [KernelSchedule(NAME, pattern, largest, Domain(rows, cols), mapping,
                           resident=ceil_div(grid, device.processors))]


def lower_scatter(schedule: KernelSchedule) -> LoweredKernel:
    """The kernel of a scatter schedule.

    Raises:
        ScheduleError: a scatter needs the result of another.
    """
    if not schedule.in_blocks:
        return _by_tasks(schedule)
    scatters = schedule.pattern.outputs
    filled, added = [_filled(schedule, n) for n in scatters], [_scattered(schedule, n) for n in scatters]
    return fuse_groups(schedule, [filled, added])


def _by_tasks(schedule: KernelSchedule) -> LoweredKernel:
    buffers = BufferTable(schedule.pattern)
    out = ScopedEmitter(buffers.size)
    evaluator = Evaluator(schedule, buffers, out)
    node, chunk = schedule.dominant, schedule.mapping.rows_per_block
    rows, cols = schedule.domain.rows, schedule.domain.cols
    first = var(Var(k.BLOCK, schedule.mapping.grid)) * chunk
    buffer = buffers.writing(node)
    row, col = Var("row", chunk), Var("col", cols)
    limit = None if divides(chunk, rows) else first * -1 + rows
    by_row = k.Loop.SIMD if cols == 1 else k.Loop.SERIAL
    with out.loop(row, by_row, limit), out.loop(col, k.Loop.SIMD):
        index = linearize((first + var(row), *delinearize(var(col), _rows_of(node)[1:])), _rows_of(node))
        out.emit(k.Store(buffer, index, _before(evaluator, node, delinearize(index, node.type.dims))))
    step = Var("step", node.operands[1].type.dims[0])
    with out.loop(step, k.Loop.SERIAL):
        target, inside = _target(evaluator, node, var(step))
        mine = None if schedule.mapping.grid == 1 else k.InRange(target - first, 0, chunk)
        with out.when(k.both(inside, mine)), out.loop(col, k.Loop.SIMD):
            _accumulate(evaluator, node, buffer, target, (var(step), *delinearize(var(col), _rows_of(node)[1:])))
    return finish(schedule, out, buffers)


def _filled(schedule: KernelSchedule, node: Node) -> LoweredKernel:
    """What elements are before, by all threads."""
    schedule, buffers, out, evaluator, flat, inside = _flat(schedule, node.type.numel)
    buffer = buffers.writing(node)
    with out.when(inside):
        at = flat if inside is None else out.clamped("element", flat, node.type.numel)
        out.emit(k.Store(buffer, at, _before(evaluator, node, delinearize(at, node.type.dims))))
    return finish(schedule, out, buffers)


def _scattered(schedule: KernelSchedule, node: Node) -> LoweredKernel:
    """Updates, by all threads."""
    updates = node.operands[2]
    schedule, buffers, out, evaluator, flat, inside = _flat(schedule, updates.type.numel)
    buffer = buffers.writing(node)
    with out.when(inside):
        flat = flat if inside is None else out.clamped("update", flat, updates.type.numel)
        at = delinearize(flat, updates.type.dims)
        target, inside = _target(evaluator, node, at[0])
        with out.when(inside):
            _accumulate(evaluator, node, buffer, target, at)
    return finish(schedule, out, buffers)


def _flat(schedule: KernelSchedule, elements: int
          ) -> tuple[KernelSchedule, BufferTable, ScopedEmitter, Evaluator, Index, k.Expr | None]:
    """A thread's element of `elements`, and the condition that there is one (None: always)."""
    blocks, threads = ceil_div(elements, THREADS), schedule.mapping.threads
    schedule = replace(schedule, mapping=replace(schedule.mapping, grid=blocks))
    buffers = BufferTable(schedule.pattern)
    out = ScopedEmitter(buffers.size)
    flat = var(Var(k.BLOCK, blocks)) * threads + var(Var(k.THREAD, threads))
    inside = None if divides(threads, elements) else k.InRange(flat, 0, elements)
    return schedule, buffers, out, Evaluator(schedule, buffers, out), flat, inside


def _rows_of(node: Node) -> tuple[int, ...]:
    """The shape of a scatter's result, with one axis for the rows."""
    return static_shape(cast(ScatterAttrs, node.attrs).rows)


def _before(evaluator: Evaluator, node: Node, at: MultiIndex) -> k.Expr:
    before = node.operands[0]
    return evaluator.value(before, aligned_index(at, before.type.dims))


def _target(evaluator: Evaluator, node: Node, step: Index) -> tuple[Index, k.Expr]:
    """The row that an update goes to, and the condition that there is one. One behind the last is an error on a CPU."""
    out, indices, rows = evaluator.out, node.operands[1], _rows_of(node)[0]
    row = evaluator.value(indices, (step,))
    dtype = indices.type.dtype
    there = k.Apply(OpKind.GREATER_EQUAL, (row, k.Literal(0, dtype)), DType.BOOL)
    below = k.Apply(OpKind.LESS, (row, k.Literal(rows, dtype)), DType.BOOL)
    if not evaluator.gpu:
        out.emit(k.Fail(below))
    target = Var(out.fresh("target"), rows)
    out.emit(k.LetIndex(target, row, rows - 1))
    return var(target), k.Apply(OpKind.AND, (there, below), DType.BOOL)


def _accumulate(evaluator: Evaluator, node: Node, buffer: str, target: Index, at: MultiIndex) -> None:
    attrs = cast(ScatterAttrs, node.attrs)
    value = evaluator.value(node.operands[2], at)
    index = linearize((target, *at[1:]), _rows_of(node))
    evaluator.out.emit(k.Accumulate(buffer, index, value, attrs.combine, attrs.updates_first))


_TILINGS = Tilings(((GRID,), (STEPS,)), fixed)

SCATTER = KernelFamily(NAME, propose_scatter, lower_scatter, lambda schedule: _TILINGS)
