"""A kernel that writes rows of a tensor where it lies, instead of values that a scatter would read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from tf_stitch.errors import ScheduleError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ScatterAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.types import static_shape
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, var
from tf_stitch.kernel_ir.rename import renamed
from tf_stitch.kernel_ir.walk import expanded, own_accesses
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.evaluate import Evaluator
from tf_stitch.lowering.kernel import LoweredKernel, title
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.schedule.kernel_schedule import KernelSchedule


@dataclass(frozen=True)
class RowUpdate:
    """Attributes:
        value: what a kernel writes.
        scatter: what it is rows of.
        first: the number of its first row among the scatter's updates.
    """

    value: Node
    scatter: Node
    first: int


def with_row_updates(kernel: LoweredKernel, schedule: KernelSchedule, updates: Sequence[RowUpdate]) -> LoweredKernel:
    """The kernel with rows in the place of values, which nobody else reads.

    Args:
        schedule: of the pattern with the scatters.

    Raises:
        ScheduleError: the kernel's blocks wait for each other, it reads a tensor that it is to update, or it writes a
            value in a way in which no row can be written.
    """
    if kernel.program.looped or kernel.program.cluster > 1:
        raise ScheduleError("blocks that wait for each other", schedule.dominant.loc)
    return _Rewrite(kernel, schedule, updates).kernel()


class _Apart(ScopedEmitter):
    """Its names are none of another emitter's."""

    def fresh(self, stem: str) -> str:
        return super().fresh(f"row_{stem}")


class _Rewrite:
    def __init__(self, kernel: LoweredKernel, schedule: KernelSchedule, updates: Sequence[RowUpdate]) -> None:
        self._kernel, self._schedule = kernel, schedule
        self._table = BufferTable(schedule.pattern)
        self._out = _Apart(self._table.size)
        self._evaluator = Evaluator(schedule, self._table, self._out)
        self._buffers = {node: buffer for (node, _), buffer in zip(kernel.arguments, kernel.program.parameters,
                                                                   strict=True)}
        self._updates = {self._buffers[update.value].name: update for update in updates}
        scatters = dict.fromkeys(update.scatter for update in updates)
        self._target = {scatter: f"updated{i}" for i, scatter in enumerate(scatters)}
        if any(scatter.operands[0] in self._buffers for scatter in scatters):
            raise ScheduleError("a kernel reads what it updates", schedule.dominant.loc)

    def kernel(self) -> LoweredKernel:
        program, schedule = self._kernel.program, self._schedule
        body = expanded(program.body, self._written)
        names = self._names()
        written = zip(self._kernel.arguments, program.parameters, strict=True)
        parameters = [(node, mode, b) for (node, mode), b in written if b.name not in self._updates]
        tables = [b for b in program.buffers if b.constant is not None]
        tables += [replace(b, name=names[b.name]) for b in self._table.buffers if b.constant is not None]
        parameters += [(node, mode, replace(b, name=names[b.name])) for node, mode, b in self._read()
                       if node not in self._buffers]
        for scatter, name in self._target.items():
            before, mine = scatter.operands[0], schedule.pattern.name(scatter)
            old = k.Buffer(f"{name}_before", before.type.dtype, before.type.numel, k.Mode.READ,
                           note=schedule.pattern.name(before))
            new = k.Buffer(name, scatter.type.dtype, scatter.type.numel, k.Mode.WRITE, note=mine)
            parameters += [(before, k.Mode.READ, old), (scatter, k.Mode.WRITE, new)]
        program = replace(program, buffers=(*(b for _, _, b in parameters), *tables),
                          body=(*renamed(self._out.statements, names, {}), *body), title=title(schedule.pattern))
        return LoweredKernel(replace(schedule, schemes=self._kernel.schedule.schemes), program,
                             tuple((node, mode) for node, mode, _ in parameters))

    def _read(self) -> list[tuple[Node, k.Mode, k.Buffer]]:
        """What tells the numbers of rows, but for constants, as the table names it."""
        numbers = [b for b in self._table.buffers if b.constant is None]
        return [(node, mode, b) for (node, mode), b in zip(self._table.arguments, numbers, strict=True)]

    def _names(self) -> dict[str, str]:
        """The table's names -> the kernel's, of which some may be the same and mean another buffer."""
        known = {b.name: self._buffers[node].name for node, _, b in self._read() if node in self._buffers}
        return {b.name: known.get(b.name, f"row_{b.name}") for b in self._table.buffers}

    def _written(self, stmt: k.Stmt) -> Sequence[k.Stmt]:
        """What stands in the place of a statement."""
        if isinstance(stmt, k.Store | k.StoreVector) and stmt.buffer in self._updates:
            return self._row(stmt, self._updates[stmt.buffer])
        if any(access.buffer in self._updates for access in own_accesses(stmt)):
            raise ScheduleError("rows that are written all at once", self._schedule.dominant.loc)
        return (stmt,)

    def _row(self, stmt: k.Store | k.StoreVector, update: RowUpdate) -> Sequence[k.Stmt]:
        """A store to the row that an update goes to, if there is one."""
        attrs, indices = update.scatter.attrs, update.scatter.operands[1]
        assert isinstance(attrs, ScatterAttrs)
        rows, *dims = static_shape(attrs.rows)
        width = prod(dims)
        if isinstance(stmt, k.StoreVector) and width % stmt.width:
            raise ScheduleError("vectors of several rows", update.scatter.loc)
        with self._out.element(sorted(stmt.index.variables(), key=str)) as found:
            number = self._evaluator.value(indices, (stmt.index // width + update.first,))
        target = Var(self._out.fresh("target"), rows)
        at: Index = var(target) * width + stmt.index % width
        there = k.Apply(OpKind.GREATER_EQUAL, (number, k.Literal(0, indices.type.dtype)), DType.BOOL)
        below = k.Apply(OpKind.LESS, (number, k.Literal(rows, indices.type.dtype)), DType.BOOL)
        stored = replace(stmt, buffer=self._target[update.scatter], index=at)
        inside = k.Apply(OpKind.AND, (there, below), DType.BOOL)
        return (*renamed(tuple(found), self._names(), {}), k.If(inside, (k.LetIndex(target, number, rows - 1), stored)))
