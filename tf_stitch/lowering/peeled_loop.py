"""A loop whose first iterations find in arrays what they would load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from tf_stitch.ir.dtypes import DType
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Var, var
from tf_stitch.kernel_ir.walk import expanded
from tf_stitch.lowering.load_units import Unit, needed, words


@dataclass(frozen=True)
class LoopLoads:
    """Loads of each iteration of a loop that may be made before it.

    Attributes:
        step: the loop's variable.
        units: scalars, and arrays with the vectors loaded into them.
        indices: those declared in the loop that they need, in order.
    """

    step: Var
    units: Sequence[Unit]
    indices: Sequence[k.LetIndex]

    @property
    def registers(self) -> int:
        """32-bit ones, of an iteration."""
        return sum(words(unit) for unit in self.units)

    def names_outside(self) -> set[str]:
        """Indices declared before the loop that they need."""
        inside = {self.step.name, *(s.var.name for s in self.indices)}
        return set(chain.from_iterable(map(needed, (*self.units, *((s,) for s in self.indices))))) - inside

    def arrays(self, count: int) -> Iterator[tuple[k.Array, int]]:
        """An array for each load of `count` iterations, and its registers."""
        for unit in self.units:
            name, width, dtype = _kept(unit)
            yield k.Array(name, dtype, count * width), count * words(unit)

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
        array, width, _ = _kept(unit)
        load = unit[-1]
        if isinstance(load, k.LoadVector):
            return replace(load, array=array, at=var(self.step) * width)
        assert isinstance(load, k.Let)
        return k.SetElement(array, var(self.step), load.value)

    def _from(self, unit: Unit) -> k.Stmt:
        array, width, dtype = _kept(unit)
        load = unit[-1]
        if isinstance(load, k.LoadVector):
            lane = Var(f"{load.array}_lane", width)
            element = k.Element(array, var(self.step) * width + var(lane), dtype)
            return k.For(lane, (k.SetElement(load.array, load.at + var(lane), element),), k.Loop.UNROLL)
        assert isinstance(load, k.Let)
        return replace(load, value=k.Element(array, var(self.step), dtype))


def _kept(unit: Unit) -> tuple[str, int, DType]:
    """The array that keeps what is loaded in several iterations: its name, elements of each, and their type."""
    first, load = unit[0], unit[-1]
    if isinstance(load, k.LoadVector):
        assert isinstance(first, k.Array)
        return f"{first.name}_ahead", load.width, first.dtype
    assert isinstance(load, k.Let)
    return f"{load.name}_ahead", 1, load.value.dtype
