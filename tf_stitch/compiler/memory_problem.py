"""A plan's values as a problem of planning/memory.py: when each is written and read, what it is computed from, and what
computing it again takes.

What is computed again has the same bits. Arithmetic by element has in any kernel, where halves are rounded as memory
would have them. A sum has where its kernel adds in
the same order; a library's call where it is the same call. So a reader that sums takes in what it reads only where its
own schedule stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from tf_stitch.compiler.kernel_plan import KernelPlan
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import AssignAttrs, ScatterAttrs, VariableAttrs
from tf_stitch.ir.op_kinds import CALLED, COLLECTED, Category
from tf_stitch.ir.text_format import structural_key
from tf_stitch.kernel_ir.nodes import Mode
from tf_stitch.placement.concurrency_levels import WORTH_WAITING
from tf_stitch.placement.executable import ALIGNMENT
from tf_stitch.placement.liveness import needed
from tf_stitch.placement.memory_profile import memory_profile
from tf_stitch.placement.storage import SMALL_BYTES
from tf_stitch.planning.memory import MemoryProblem, Use, Value, stretches
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.kernel_schedule import KernelSchedule

BY_ELEMENT = (Category.ELEMENTWISE, Category.MOVEMENT)
NEGLIGIBLE = 1000
"""Of the bytes that are alive at most, the part that a value has at least which is worth a choice."""
DEPTH = 3
"""Values in a row that are computed again one from the other, each at a time at which the first is read."""


@dataclass(frozen=True)
class Recipe:
    """How a value is computed again.

    Attributes:
        pattern: the nodes that do, as a kernel or call.
        sources: values of kernels that it reads; `variables`: handles.
        by_element: it adds nothing up.
    """

    pattern: Pattern
    sources: tuple[Node, ...]
    variables: tuple[str, ...]
    by_element: bool


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
                   barred: Iterable[tuple[Node, Pattern | None]] = ()) -> PlannedValues:
    """The problem of a plan whose values have places.

    Args:
        queued: kernels that wait for nothing run as soon as they can.
        barred: values that patterns must not compute themselves; None: that nobody computes again.
    """
    return _Planned(kernels, compiler, queued, frozenset(barred)).found()


class _Planned:
    def __init__(self, kernels: KernelPlan, compiler: PatternCompiler, queued: bool,
                 barred: frozenset[tuple[Node, Pattern | None]]) -> None:
        self._plan, self._buffers, self._compiler = kernels.plan, kernels.buffers, compiler
        self._queued, self._barred = queued, barred
        self._alive = memory_profile(kernels.buffers).alive
        self._written: dict[Node, int] = {}
        for needs in needed(self._buffers.kernels, self._buffers.levels):
            self._written |= {need.node: need.first for need in needs if need.mode is not Mode.READ}
        self._times = tuple(min((self._written[n] for n in p.outputs if n in self._written), default=0)
                            for p in self._plan.patterns)
        self._home = {node: i for i, p in enumerate(self._plan.patterns) for node in p.nodes}
        self._readers: dict[Node, list[int]] = {}
        for i, pattern in enumerate(self._plan.patterns):
            for value in pattern.reads():
                self._readers.setdefault(value, []).append(i)
        self._old = {n.operands[0] for p in self._plan.patterns for n in p.nodes if _is_in_place(n)}
        arena = {*self._buffers.lives, *self._buffers.reused}
        self._values = [n for p in self._plan.patterns for n in p.outputs
                        if n in arena and n in self._written and n not in self._old]
        self._number = {node: i for i, node in enumerate(self._values)}
        self._outside = {n for p in self._plan.patterns for n in p.outputs if n not in arena} - self._old
        most = max(self._alive, default=0)
        self._recipes = {value: recipe for value in self._values if NEGLIGIBLE * _nbytes(value) >= most
                         and (value, None) not in barred and (recipe := self._recipe(value)) is not None}

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

    def _recipe(self, value: Node) -> Recipe | None:
        """Of nodes of its own pattern, from what lies in memory; None where the bits might differ."""
        pattern = self._plan.patterns[self._home[value]]
        if any(map(_is_of_float8, pattern.nodes)):
            return None
        members = set(pattern.nodes)
        outputs = {node for node in pattern.outputs if node is not value and not _is_rounded(node)}
        inside, sources, variables, pending = {value}, dict[Node, None](), dict[str, None](), [value]
        seen = {value}
        while pending:
            for operand in pending.pop().operands:
                if operand in seen:
                    continue
                seen.add(operand)
                if operand in self._old:
                    return None
                if isinstance(operand.attrs, VariableAttrs):
                    variables[operand.attrs.handle] = None
                elif operand in outputs or (operand in self._home and operand not in members):
                    sources[operand] = None
                elif operand.category is not Category.SOURCE:
                    inside |= {operand} & members
                    pending.append(operand)
        nodes = tuple(n for n in pattern.nodes if n in inside)
        made = Pattern(nodes, (value,), pattern.free)
        by_element = all(n.category in BY_ELEMENT for n in nodes)
        if by_element or self._same_bits(pattern, made):
            return Recipe(made, tuple(sources), tuple(variables), by_element)
        return None

    def _same_bits(self, pattern: Pattern, part: Pattern) -> bool:
        """Whether a part of a pattern adds in the order of the whole."""
        if any(_is_in_place(n) or n.category is Category.SCATTER for n in part.nodes):
            return False
        if (part.nodes, part.outputs) == (pattern.nodes, pattern.outputs):
            return True
        return not any(n.category in CALLED for n in part.nodes) and self._adds_alike(pattern, part)

    def _adds_alike(self, one: Pattern, other: Pattern) -> bool:
        try:
            return additions(self._compiler.compile(one).schedule) == additions(self._compiler.compile(other).schedule)
        except ScheduleError:
            return False

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
        if (value, reader) in self._barred or any(n.category in CALLED or _is_in_place(n) or _is_of_float8(n)
                                                   for n in reader.nodes):
            return None
        whole = Pattern((*recipe.pattern.nodes, *reader.nodes), reader.outputs, reader.free)
        before, after = self._compiler.exact(reader), self._compiler.exact(whole)
        if before is None or after is None or (is_order_dependent(reader) and not self._adds_alike(reader, whole)):
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


def additions(schedule: KernelSchedule) -> tuple[object, ...]:
    """What says in which order a kernel adds."""
    return (schedule.family, schedule.dominant.kind, schedule.domain, schedule.mapping, schedule.together,
            schedule.launched, schedule.relative is None, schedule.matmul)


def is_order_dependent(pattern: Pattern) -> bool:
    """Whether a pattern adds, so that its bits depend on its schedule."""
    return any(n.category in COLLECTED for n in pattern.nodes)


def _is_in_place(node: Node) -> bool:
    return isinstance(node.attrs, ScatterAttrs) and node.attrs.in_place


def _is_rounded(node: Node) -> bool:
    """Whether memory has less of a value than the kernel that computes it, and goes on with it."""
    return node.type.dtype.compute is not node.type.dtype


def _is_of_float8(node: Node) -> bool:
    """Whether how it rounds depends on what its kernel does next (lowering/scaling.py)."""
    return any(n.type.dtype.is_float8 for n in (node, *node.operands))


def _nbytes(node: Node) -> int:
    return -(-int(node.type.nbytes) // ALIGNMENT) * ALIGNMENT
