"""How the blocks of a row combine what they reduced. Every warp of every block combines all parts, in the same order.

Blocks of a cluster send what each of their warps reduced into each other's memory: the cluster's barrier is the only
one that they wait at. Others leave what each of them reduced in device memory, and wait at a cooperative group barrier.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.reductions import initial
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, var
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.lowering.stores import first_of
from tf_stitch.schedule.kernel_schedule import KernelSchedule

_Part: TypeAlias = Callable[[Index], k.Expr]
"""What one of those who combine their parts has, by its number."""


@dataclass(frozen=True)
class OwnMaximum:
    """The maximum of a part of a row.

    Attributes:
        name: the accumulator that stands for the row's maximum.
        own: a variable that keeps the part's.
    """

    name: str
    node: Node
    own: str


class CrossBlockReduction:
    """Barriers of the blocks of row `row`, of which this is block `part`.

    Attributes:
        width: threads that reduce together before the blocks do: a block's, or a warp's of a cluster.
    """

    def __init__(self, schedule: KernelSchedule, out: ScopedEmitter, buffers: BufferTable, row: Index, part: Index
                 ) -> None:
        self._pattern, self._mapping, self._rows = schedule.pattern, schedule.mapping, schedule.domain.rows
        self._out, self._buffers, self._row, self._part = out, buffers, row, part
        m = self._mapping
        self._warp = m.warp
        self.width = m.warp if m.cluster else m.row_threads
        self._parts = m.row_blocks * (m.row_threads // self.width)  # what is combined
        self._turn = Var("other", ceil_div(self._parts, m.warp))
        self._thread = var(Var(k.THREAD, m.threads))
        self._started = False

    def combine(self, accumulators: Mapping[str, Node]) -> None:
        """Accumulators of parts become those of the row."""
        others = self._exchange(accumulators)
        for name, node in accumulators.items():
            self._take(name, node, k.Element(others[name], var(self._turn), _dtype(node)))
        self._all_reduce(accumulators)

    def keep_own(self, maximum: tuple[str, Node]) -> OwnMaximum:
        """Lets a part's maximum stand for the row's; 0 where it is -inf: exp(-inf - 0) is 0, as it is relative to any
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
        """As combine, for a maximum and a sum of exponentials that each part took relative to its own (online softmax,
        Milakov and Gimelshein). The factor that makes this part's exponentials relative to the row's maximum."""
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
        """Arrays of what the others have: of every WARPth one, by lane."""
        out = self._out
        out.emit(k.Comment("the blocks of the row combine their parts", self._pattern.names(accumulators.values())))
        parts = (self._sent if self._mapping.cluster else self._stored)(accumulators)
        others = {name: out.fresh("others") for name in accumulators}
        for name, node in accumulators.items():
            out.emit(k.Array(others[name], _dtype(node), self._turn.extent, init=initial(node)))
        other = var(self._turn) * self._warp + self._thread % self._warp
        with out.loop(self._turn, k.Loop.UNROLL), out.when(k.InRange(other, 0, self._parts)):
            at = out.clamped("part", other, self._parts)
            for name, part in parts.items():
                out.emit(k.SetElement(others[name], var(self._turn), part(at)))
        return others

    def _stored(self, accumulators: Mapping[str, Node]) -> dict[str, _Part]:
        """Each block's accumulators, in device memory."""
        out, first = self._out, self._row * self._parts
        parts = {name: self._buffers.scratch(_dtype(node), self._rows * self._parts)
                 for name, node in accumulators.items()}
        with out.when(first_of(self._thread)):
            for name, buffer in parts.items():
                out.emit(k.Store(buffer, first + self._part, k.Local(name, _dtype(accumulators[name]))))
        out.emit(k.GroupBarrier())
        return {name: partial(_loaded, buffer, first, _dtype(accumulators[name])) for name, buffer in parts.items()}

    def _sent(self, accumulators: Mapping[str, Node]) -> dict[str, _Part]:
        """Each warp's accumulators, in the memory of every block of the cluster."""
        out, block = self._out, self._thread % self._warp
        if not self._started:
            out.emit(k.ClusterStarted())
            self._started = True
        parts = {name: out.fresh("parts") for name in accumulators}
        for name, node in accumulators.items():
            out.emit(k.Array(parts[name], _dtype(node), self._parts, k.Space.SHARED, received=True))
        at = self._part * (self._mapping.threads // self._warp) + self._thread // self._warp
        with out.when(k.InRange(block, 0, self._mapping.row_blocks)):  # a lane sends to a block
            for name, node in accumulators.items():
                out.emit(k.Send(parts[name], at, k.Local(name, _dtype(node)), block))
        out.emit(k.ClusterBarrier())
        return {name: partial(_received, array, _dtype(accumulators[name])) for name, array in parts.items()}

    def _take(self, name: str, node: Node, value: k.Expr) -> None:
        """A new accumulator, of this lane's values."""
        self._out.emit(k.Assign(name, k.Literal(initial(node), _dtype(node))))
        with self._out.loop(self._turn, k.Loop.UNROLL):
            self._out.emit(k.Update(name, node.kind, value))

    def _all_reduce(self, accumulators: Mapping[str, Node]) -> None:
        self._out.emit(k.AllReduce(tuple((name, node.kind) for name, node in accumulators.items()), self._warp))


def _loaded(buffer: str, first: Index, dtype: DType, at: Index) -> k.Expr:
    return k.Load(buffer, first + at, dtype)


def _received(array: str, dtype: DType, at: Index) -> k.Expr:
    return k.Element(array, at, dtype)


def _dtype(node: Node) -> DType:
    return node.operands[0].type.dtype.compute
