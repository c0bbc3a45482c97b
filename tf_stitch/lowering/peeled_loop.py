"""A loop whose first iterations find in arrays what they would load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from tf_stitch.ir.dtypes import DType
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Var, var
from tf_stitch.kernel_ir.walk import expanded
from tf_stitch.lowering.load_units import Unit, keeping, needed


@dataclass(frozen=True)
class LoopLoads:
    """Loads of each iteration of a loop that may be made before it.

    Attributes:
        step: the loop's variable.
        units: scalars, and arrays with the vectors loaded into them.
        indices: those declared in the loop that they need, in order.
        dtypes: of buffers.
    """

    step: Var
    units: Sequence[Unit]
    indices: Sequence[k.LetIndex]
    dtypes: Mapping[str, DType]

    @property
    def registers(self) -> int:
        """32-bit ones, of an iteration."""
        return sum(array.nbytes // 4 for array in self.arrays(1))

    def names_outside(self) -> set[str]:
        """Indices declared before the loop that they need."""
        inside = {self.step.name, *(s.var.name for s in self.indices)}
        return set(chain.from_iterable(map(needed, (*self.units, *((s,) for s in self.indices))))) - inside

    def arrays(self, count: int) -> Iterator[k.Array]:
        """An array for each load of `count` iterations."""
        for unit in self.units:
            yield keeping(unit, count, self.dtypes)

    def filling(self, count: int) -> k.For:
        """Loads of the first `count` iterations into those arrays."""
        ahead = Var(f"{self.step.name}_ahead", count)
        return k.For(ahead, (k.LetIndex(self.step, var(ahead), None), *self.indices, *map(self._into, self.units)),
                     k.Loop.UNROLL)

    def peeled(self, loop: k.For, count: int) -> tuple[k.For, ...]:
        """The loop, in whose first `count` iterations arrays stand for loads."""
        step, first = self.step, Var(f"{self.step.name}_first", count)
        from_array = {unit[-1]: self._from(unit) for unit in self.units}
        body = expanded(loop.body, lambda stmt: (from_array.get(stmt, stmt),))
        begin = k.For(first, (k.LetIndex(step, var(first), None), *body), k.Loop.UNROLL)
        if count == step.extent:
            return (begin,)
        later = Var(f"{step.name}_later", step.extent - count)
        return begin, replace(loop, var=later, body=(k.LetIndex(step, var(later) + count, None), *loop.body))

    def _into(self, unit: Unit) -> k.Stmt:
        load, array = unit[-1], keeping(unit, 1, self.dtypes).name
        if isinstance(load, k.LoadVector):
            return replace(load, array=array, at=var(self.step) * load.width)
        assert isinstance(load, k.Let)
        return k.SetElement(array, var(self.step), load.value)

    def _from(self, unit: Unit) -> k.Stmt:
        load, array = unit[-1], keeping(unit, 1, self.dtypes)
        if isinstance(load, k.LoadVector):
            lane = Var(f"{load.array}_lane", load.width)
            element = k.Element(array.name, var(self.step) * load.width + var(lane), array.dtype)
            return k.For(lane, (k.SetElement(load.array, load.at + var(lane), element),), k.Loop.UNROLL)
        assert isinstance(load, k.Let)
        return replace(load, value=k.Element(array.name, var(self.step), array.dtype))
