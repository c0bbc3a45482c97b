"""Lowers a running sum along the last axis: one thread walks one row."""

from __future__ import annotations

from typing import cast

from tf_stitch.ir.op_attrs import CumsumAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Var, delinearize, var
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.evaluate import Evaluator
from tf_stitch.lowering.kernel import LoweredKernel, finish
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.schedule.kernel_schedule import KernelSchedule


def lower_scan(schedule: KernelSchedule) -> LoweredKernel:
    """The kernel of a scan schedule; producers of the scanned value are computed in the loop."""
    buffers = BufferTable(schedule.pattern)
    out = ScopedEmitter(buffers.size)
    evaluator = Evaluator(schedule, buffers, out)
    m, domain, node = schedule.mapping, schedule.domain, schedule.dominant
    attrs, operand = cast(CumsumAttrs, node.attrs), node.operands[0]
    row = var(Var(k.BLOCK, m.grid)) * m.threads + var(Var(k.THREAD, m.threads))
    step = Var("step", domain.cols)
    position = var(step) * -1 + (domain.cols - 1) if attrs.reverse else var(step)
    flat = row * domain.cols + position
    buffer, total = buffers.writing(node), out.fresh("acc")
    with out.when(None if m.grid * m.threads == domain.rows else k.InRange(row, 0, domain.rows)):
        out.emit(k.Accumulator(total, node.type.dtype.compute, 0))
        with out.loop(step, k.Loop.SERIAL):
            value = evaluator.value(operand, delinearize(flat, operand.type.dims))
            result = k.Local(total, node.type.dtype.compute)
            stores: list[k.Stmt] = [k.Update(total, OpKind.SUM, value), k.Store(buffer, flat, result)]
            for stmt in reversed(stores) if attrs.exclusive else stores:
                out.emit(stmt)
    return finish(schedule, out, buffers)
