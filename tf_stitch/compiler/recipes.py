"""How a value of a plan is computed again, with the same bits.

Arithmetic by element has the same bits in any kernel, where halves are rounded as memory would have them. A sum has
where its kernel adds in the same order; a library's call where it is the same call. So a reader that sums takes in what
it reads only where its own schedule stays as it was. A matmul in tasks of a CPU adds in one order, whatever is around
it: parts of its kernel have the bits of the whole.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.errors import ScheduleError
from tf_stitch.families.registry import adds_in_one_order
from tf_stitch.ir.graph import Node
from tf_stitch.ir.matrices import is_in_kernel
from tf_stitch.ir.op_attrs import ScatterAttrs, VariableAttrs
from tf_stitch.ir.op_kinds import CALLED, COLLECTED, Category
from tf_stitch.planning.pattern import Pattern
from tf_stitch.planning.stitch_plan import StitchPlan
from tf_stitch.schedule.kernel_schedule import KernelSchedule

BY_ELEMENT = (Category.ELEMENTWISE, Category.MOVEMENT)


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


class Recipes:
    """Finds recipes of a plan's values.

    Args:
        gone: values that are written over.
    """

    def __init__(self, plan: StitchPlan, compiler: PatternCompiler, gone: Collection[Node]) -> None:
        self._compiler, self._gone = compiler, gone
        self._home = {node: pattern for pattern in plan.patterns for node in pattern.nodes}

    def of(self, value: Node) -> Recipe | None:
        """How a value is computed again by nodes of its own pattern, from what lies in memory; None where the bits
        might differ."""
        pattern = self._home[value]
        if any(map(is_of_float8, pattern.nodes)):
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
                if operand in self._gone:
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
        if any(is_in_place(n) or n.category is Category.SCATTER for n in part.nodes):
            return False
        if (part.nodes, part.outputs) == (pattern.nodes, pattern.outputs):
            return True
        return may_change(self._compiler, pattern) and adds_alike(self._compiler, pattern, part)


def adds_alike(compiler: PatternCompiler, one: Pattern, other: Pattern) -> bool:
    """Whether the kernels of two patterns add in the same order."""
    try:
        return additions(compiler.compile(one).schedule) == additions(compiler.compile(other).schedule)
    except ScheduleError:
        return False


def additions(schedule: KernelSchedule) -> tuple[object, ...]:
    """What says in which order a kernel adds."""
    if adds_in_one_order(schedule):
        return (schedule.family,)
    return (schedule.family, schedule.dominant.kind, schedule.domain, schedule.mapping, schedule.together,
            schedule.launched, schedule.relative is None, schedule.matmul)


def is_order_dependent(pattern: Pattern) -> bool:
    """Whether a pattern adds, so that its bits depend on its schedule."""
    return any(n.category in COLLECTED for n in pattern.nodes)


def may_change(compiler: PatternCompiler, pattern: Pattern) -> bool:
    """Whether there may be more or fewer nodes around the matmuls and attentions of a pattern: there are none, or their
    kernel adds in one order whatever is around them."""
    called = [n for n in pattern.nodes if n.category in CALLED]
    try:
        return not called or (all(map(is_in_kernel, called))
                              and adds_in_one_order(compiler.compile(pattern).schedule))
    except ScheduleError:
        return False


def is_in_place(node: Node) -> bool:
    """Whether it writes rows of what is there."""
    return isinstance(node.attrs, ScatterAttrs) and node.attrs.in_place


def _is_rounded(node: Node) -> bool:
    """Whether memory has less of a value than the kernel that computes it, and goes on with it."""
    return node.type.dtype.compute is not node.type.dtype


def is_of_float8(node: Node) -> bool:
    """Whether how it rounds depends on what its kernel does next (lowering/scaling.py)."""
    return any(n.type.dtype.is_float8 for n in (node, *node.operands))
