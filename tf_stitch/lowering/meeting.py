"""How the blocks of a row combine what each of them reduced: through device memory and a group barrier. Every warp of
every block combines all parts, in the same order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True)
class OwnMaximum:
    """A block's maximum of its part of a row.

    Attributes:
        name: the accumulator that stands for the row's maximum.
        own: a variable that keeps the block's.
    """

    name: str
    node: Node
    own: str


class Meeting:
    """Meetings of the blocks of row `row`, of which this is block `part`."""

    def __init__(self, schedule: KernelSchedule, out: ScopedEmitter, buffers: BufferTable, row: Index, part: Index
                 ) -> None:
        self._pattern, self._mapping, self._rows = schedule.pattern, schedule.mapping, schedule.domain.rows
        self._out, self._buffers, self._row, self._part = out, buffers, row, part
        self._turn = Var("other", ceil_div(self._mapping.row_blocks, WARP))

    def combine(self, accumulators: Mapping[str, Node]) -> None:
        """Accumulators of blocks become those of the row."""
        others = self._exchange(accumulators)
        for name, node in accumulators.items():
            self._take(name, node, k.Element(others[name], var(self._turn), _dtype(node)))
        self._all_reduce(accumulators)

    def keep_own(self, maximum: tuple[str, Node]) -> OwnMaximum:
        """Lets a block's maximum stand for the row's; 0 where it is -inf: exp(-inf - 0) is 0, as it is relative to any
        number."""
        name, node = maximum
        dtype = _dtype(node)
        own = self._out.fresh("own")
        self._out.emit(k.Accumulator(own, dtype, initial(node)))
        self._out.emit(k.Assign(own, k.Local(name, dtype)))
        empty = k.Apply(OpKind.EQUAL, (k.Local(own, dtype), k.Literal(-math.inf, dtype)), DType.BOOL)
        shift = k.Apply(OpKind.SELECT, (empty, k.Literal(0.0, dtype), k.Local(own, dtype)), dtype)
        self._out.emit(k.Assign(name, shift))
        return OwnMaximum(name, node, own)

    def combine_relative(self, maximum: OwnMaximum, total: tuple[str, Node]) -> k.Expr:
        """As combine, for a maximum and a sum of exponentials that each block took relative to its own (online softmax,
        Milakov and Gimelshein). The factor that makes this block's exponentials relative to the row's maximum."""
        name, node = total
        dtype = _dtype(node)
        others = self._exchange({maximum.own: maximum.node, name: node})
        theirs = k.Element(others[maximum.own], var(self._turn), dtype)
        self._take(maximum.name, maximum.node, theirs)
        self._all_reduce({maximum.name: maximum.node})

        def factor(of: k.Expr) -> k.Expr:
            difference = k.Apply(OpKind.SUB, (of, k.Local(maximum.name, dtype)), dtype)
            return k.Apply(OpKind.EXP, (difference,), dtype)

        sums = k.Element(others[name], var(self._turn), dtype)
        self._take(name, node, k.Apply(OpKind.MUL, (sums, factor(theirs)), dtype))
        self._all_reduce({name: node})
        scale = self._out.fresh("factor")
        self._out.emit(k.Accumulator(scale, dtype, 0.0))
        self._out.emit(k.Assign(scale, factor(k.Local(maximum.own, dtype))))
        return k.Local(scale, dtype)

    def _exchange(self, accumulators: Mapping[str, Node]) -> dict[str, str]:
        """Arrays of what the other blocks have: of every WARPth one, by lane."""
        m, out = self._mapping, self._out
        out.emit(k.Comment("the blocks of the row meet", self._pattern.names(accumulators.values())))
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
