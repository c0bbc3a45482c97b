"""How the blocks of a row combine what each of them reduced: through device memory and a group barrier. Every warp of
every block combines all parts, in the same order."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.sizes import ceil_div
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, var
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.reduce import initial
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.lowering.stores import first_of
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.schedule.schemes import WARP


class Meeting:
    """Meetings of the blocks of row `row`, of which this is block `part`."""

    def __init__(self, schedule: KernelSchedule, out: ScopedEmitter, buffers: BufferTable, row: Index, part: Index
                 ) -> None:
        self._mapping, self._rows = schedule.mapping, schedule.domain.rows
        self._out, self._buffers, self._row, self._part = out, buffers, row, part
        self._turn = Var("other", ceil_div(self._mapping.row_blocks, WARP))

    def combine(self, accumulators: Mapping[str, Node]) -> None:
        """Accumulators of blocks become those of the row."""
        others = self._exchange(accumulators)
        for name, node in accumulators.items():
            self._take(name, node, k.Element(others[name], var(self._turn), _dtype(node)))
        self._all_reduce(accumulators)

    def combine_relative(self, maximum: tuple[str, Node], total: tuple[str, Node]) -> None:
        """The same for a maximum and a sum of exponentials that each block took relative to its own maximum (online
        softmax, Milakov and Gimelshein). A block of -inf alone adds nothing, unless all are."""
        (high, highest), (name, node) = maximum, total
        others, dtype = self._exchange(dict([maximum, total])), _dtype(node)
        theirs = k.Element(others[high], var(self._turn), dtype)
        self._take(high, highest, theirs)
        self._all_reduce(dict([maximum]))
        sums = k.Element(others[name], var(self._turn), dtype)
        factor = k.Apply(OpKind.EXP, (k.Apply(OpKind.SUB, (theirs, k.Local(high, dtype)), dtype),), dtype)
        empty = k.Apply(OpKind.EQUAL, (theirs, k.Literal(-math.inf, dtype)), DType.BOOL)
        scaled = k.Apply(OpKind.MUL, (sums, factor), dtype)
        other = k.Apply(OpKind.SELECT, (empty, k.Literal(0.0, dtype), scaled), dtype)
        same = k.Apply(OpKind.EQUAL, (theirs, k.Local(high, dtype)), DType.BOOL)
        self._take(name, node, k.Apply(OpKind.SELECT, (same, sums, other), dtype))
        self._all_reduce(dict([total]))

    def _exchange(self, accumulators: Mapping[str, Node]) -> dict[str, str]:
        """Arrays of what the other blocks have: of every WARPth one, by lane."""
        m, out = self._mapping, self._out
        blocks, thread = m.row_blocks, var(Var(k.THREAD, m.threads))
        parts = {name: self._buffers.scratch(_dtype(node), self._rows * blocks) for name, node in accumulators.items()}
        with out.when(first_of(thread)):
            for name, buffer in parts.items():
                at = self._row * blocks + self._part
                out.emit(k.Store(buffer, at, k.Local(name, _dtype(accumulators[name]))))
        out.emit(k.GroupBarrier())
        others = {name: out.fresh("others") for name in accumulators}
        for name, node in accumulators.items():
            out.emit(k.Array(others[name], _dtype(node), self._turn.extent, init=initial(node)))
        other = var(self._turn) * WARP + thread % WARP
        with out.loop(self._turn, k.Loop.UNROLL), out.when(k.InRange(other, 0, blocks)):
            at = self._row * blocks + out.clamped("part", other, blocks)
            for name, buffer in parts.items():
                out.emit(k.SetElement(others[name], var(self._turn), k.Load(buffer, at, _dtype(accumulators[name]))))
        return others

    def _take(self, name: str, node: Node, value: k.Expr) -> None:
        """An accumulator anew, of this lane's values."""
        self._out.emit(k.Assign(name, k.Literal(initial(node), _dtype(node))))
        with self._out.loop(self._turn, k.Loop.UNROLL):
            self._out.emit(k.Update(name, node.kind, value))

    def _all_reduce(self, accumulators: Mapping[str, Node]) -> None:
        self._out.emit(k.AllReduce(tuple((name, node.kind) for name, node in accumulators.items()), WARP))


def _dtype(node: Node) -> DType:
    return node.operands[0].type.dtype.compute
