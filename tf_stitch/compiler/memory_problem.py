"""A plan's values as a problem of planning/memory.py: when each is written and read, what it is computed from, and what
computing it again takes (how that is done: compiler/recipes.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import TypeAlias

from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.recipes import (
    Recipe,
    Recipes,
    adds_alike,
    is_in_place,
    is_of_float8,
    is_order_dependent,
    may_change,
)
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import AssignAttrs
from tf_stitch.ir.text_format import structural_key
from tf_stitch.kernel_ir.nodes import Mode
from tf_stitch.placement.concurrency_levels import WORTH_WAITING
from tf_stitch.placement.executable import ALIGNMENT
from tf_stitch.placement.liveness import needed
from tf_stitch.placement.memory_profile import memory_profile
from tf_stitch.placement.storage import SMALL_BYTES
from tf_stitch.planning.memory import MemoryProblem, Use, Value, stretches
from tf_stitch.planning.pattern import Pattern

Barred: TypeAlias = frozenset[tuple[Node, Pattern | None]]
"""Values that patterns must not compute themselves; None: that nobody computes again."""
NEGLIGIBLE = 1000
"""Of the bytes that are alive at most, the part that a value has at least which is worth a choice."""
DEPTH = 3
"""Values in a row that are computed again one from the other, each at a time at which the first is read."""


@dataclass(frozen=True)
class PlannedValues:
    """The problem, and what its numbers stand for.

    Attributes:
        values: by their numbers.
        recipes: of those that can be computed again.
        times: of the patterns of the plan.
        lag: times before it is read at which a kernel may compute a value again.
    """

    problem: MemoryProblem
    values: tuple[Node, ...]
    recipes: Mapping[Node, Recipe]
    times: tuple[int, ...]
    lag: int


def planned_values(kernels: KernelPlan, compiler: PatternCompiler, queued: bool,
                   barred: Barred = frozenset()) -> PlannedValues:
    """The problem of a plan whose values have lifetimes.

    Args:
        queued: kernels that wait for nothing run as soon as they can.
    """
    return _Planned(kernels, compiler, queued, barred).found()


class _Planned:
    def __init__(self, kernels: KernelPlan, compiler: PatternCompiler, queued: bool, barred: Barred) -> None:
        self._plan, self._buffers, self._compiler = kernels.plan, kernels.buffers, compiler
        self._queued, self._barred = queued, barred
        self._alive = memory_profile(kernels.buffers).alive
        self._written: dict[Node, int] = {}
        for needs in needed(self._buffers.kernels, self._buffers.levels):
            self._written |= {need.node: need.first for need in needs if need.mode is not Mode.READ}
        self._times = tuple(min((self._written[n] for n in p.outputs if n in self._written), default=0)
                            for p in self._plan.patterns)
        self._readers: dict[Node, list[int]] = {}
        for i, pattern in enumerate(self._plan.patterns):
            for value in pattern.reads():
                self._readers.setdefault(value, []).append(i)
        old = {n.operands[0] for p in self._plan.patterns for n in p.nodes if is_in_place(n)}
        arena = {*self._buffers.lives, *self._buffers.reused}
        self._values = [n for p in self._plan.patterns for n in p.outputs
                        if n in arena and n in self._written and n not in old]
        self._number = {node: i for i, node in enumerate(self._values)}
        self._outside = {n for p in self._plan.patterns for n in p.outputs if n not in arena} - old
        most, recipes = max(self._alive, default=0), Recipes(self._plan, compiler, old)
        self._recipes = {value: recipe for value in self._values if NEGLIGIBLE * _nbytes(value) >= most
                         and (value, None) not in barred and (recipe := recipes.of(value)) is not None}

    def found(self) -> PlannedValues:
        uses = [{time: self._use(node, time, True) for time in self._read[node]} for node in self._values]
        fresh = [list(own.values()) for own in uses]
        for _ in range(DEPTH):
            wanted = self._wanted_by(fresh)
            new = [{time: self._use(node, time, False) for time in sorted(wanted[i] - uses[i].keys())}
                   for i, node in enumerate(self._values)]
            uses = [own | more for own, more in zip(uses, new, strict=True)]
            fresh = [list(more.values()) for more in new]
        values = tuple(self._value(node, [own[time] for time in sorted(own)])
                       for node, own in zip(self._values, uses, strict=True))
        return PlannedValues(MemoryProblem(values, self._fixed(values)), tuple(self._values), self._recipes,
                             self._times, int(self._queued))

    def _wanted_by(self, uses: Sequence[Sequence[Use]]) -> list[set[int]]:
        """For each value, times at which it is wanted by others that can be computed again at these uses."""
        wanted: list[set[int]] = [set() for _ in self._values]
        for node, own in zip(self._values, uses, strict=True):
            times = [use.time for use in own if use.can_be_computed]
            for source in self._recipes[node].sources if times else ():
                if source in self._number:
                    wanted[self._number[source]].update(t for t in times if t > self._written[source])
        return wanted

    @cached_property
    def _read(self) -> dict[Node, list[int]]:
        """Times at which patterns read each value."""
        times = {node: {self._times[i] for i in self._readers.get(node, ())} for node in self._values}
        return {node: sorted(t for t in own if t > self._written[node]) for node, own in times.items()}

    def _use(self, node: Node, time: int, read: bool) -> Use:
        use, recipe = Use(time, read), self._recipes.get(node)
        before = max((t for t in self._read[node] if t < time), default=self._written[node])
        if recipe is None or time <= before + 1 or not self._can_read(recipe, time):
            return use
        return replace(use, again_us=self._again_us(node, recipe), passing_us=self._passing_us(node, recipe, use))

    def _value(self, node: Node, uses: Sequence[Use]) -> Value:
        recipe = self._recipes.get(node)
        if recipe is None:
            return Value(_nbytes(node), self._written[node], tuple(uses))
        sources = tuple(self._number[source] for source in recipe.sources if source in self._number)
        return Value(_nbytes(node), self._written[node], tuple(uses), sources, recipe.by_element,
                     self._kind(node, recipe))

    def _kind(self, node: Node, recipe: Recipe) -> object:
        readers = tuple(structural_key(p.nodes, p.outputs)
                        for p in (self._plan.patterns[i] for i in self._readers.get(node, ())))
        return structural_key(recipe.pattern.nodes, recipe.pattern.outputs), readers

    def _can_read(self, recipe: Recipe, time: int) -> bool:
        """Whether variables have their old values then, and other values lie in memory or may."""
        for handle in recipe.variables:
            if self._updated_at.get(handle, time + 1) <= time:
                return False
        return all(s in self._number or (s in self._outside and self._written.get(s, time) < time)
                   for s in recipe.sources)

    @cached_property
    def _updated_at(self) -> dict[str, int]:
        """When variables of more than a few bytes get new values."""
        return {node.attrs.handle: self._written.get(node.operands[0], 0) for _, node in self._plan.graph.outputs
                if isinstance(node.attrs, AssignAttrs) and node.type.typical_bytes > SMALL_BYTES}

    def _again_us(self, value: Node, recipe: Recipe) -> float | None:
        if self._queued and value.type.typical_bytes < WORTH_WAITING:
            return None
        return self._compiler.exact(recipe.pattern)

    def _passing_us(self, value: Node, recipe: Recipe, use: Use) -> float | None:
        if not recipe.by_element:
            return None
        if not use.read:
            alone = self._compiler.exact(recipe.pattern)
            return None if alone is None else max(0.0, alone - self._compiler.least_us)
        readers = [p for i in self._readers[value] if self._times[i] == use.time for p in [self._plan.patterns[i]]]
        added = [self._added_us(value, recipe, reader) for reader in readers]
        return None if None in added else sum(us for us in added if us is not None)

    def _added_us(self, value: Node, recipe: Recipe, reader: Pattern) -> float | None:
        """Microseconds that a pattern takes longer if it computes what it reads itself; None if it cannot."""
        if (value, reader) in self._barred or any(is_in_place(n) or is_of_float8(n) for n in reader.nodes) \
                or not may_change(self._compiler, reader):
            return None
        whole = Pattern((*recipe.pattern.nodes, *reader.nodes), reader.outputs, reader.free)
        before, after = self._compiler.exact(reader), self._compiler.exact(whole)
        if before is None or after is None:
            return None
        if is_order_dependent(reader) and not adds_alike(self._compiler, reader, whole):
            return None
        return max(0.0, after - before)

    def _fixed(self, values: Sequence[Value]) -> tuple[int, ...]:
        """What is alive beside these values, as lifetimes are; less than nothing where one is written over another."""
        change = [0] * (len(self._alive) + 1)
        for value in values:
            for first, last in stretches(value, value.kept):
                change[first] += value.nbytes
                change[last + 1] -= value.nbytes
        return tuple(alive - own for alive, own in zip(self._alive, accumulate(change), strict=False))


def _nbytes(node: Node) -> int:
    return -(-int(node.type.nbytes) // ALIGNMENT) * ALIGNMENT
