"""Phases of a row kernel: reductions that wait for others, and the values worth keeping from one phase to a later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.planning.pattern import Pattern

MOST_BESIDE = 4
"""Reductions of a row side by side in an output, which one thread stores. Assumed."""
HEAVY = 5
"""Cycles per element from which a value is staged rather than computed again."""


@dataclass(frozen=True)
class Phase:
    """One pass over the row: the reductions it computes, the element-level outputs it writes, and the column sums
    that its elements go into."""

    reductions: tuple[Node, ...]
    outputs: tuple[Node, ...]
    columns: tuple[Node, ...] = ()

    @property
    def results(self) -> tuple[Node, ...]:
        """What the pass is for."""
        return (*self.reductions, *self.columns, *self.outputs)

    @property
    def purpose(self) -> str:
        """In words."""
        kinds = Counter(f"{n.kind.value} of the row" for n in self.reductions)
        kinds.update({"sum across rows": len(self.columns), "output": len(self.outputs)})
        return ", ".join(what if count == 1 else f"{count} times {what}" for what, count in kinds.items()
                         if count)

    @property
    def roots(self) -> list[Node]:
        """Element-level values the pass has to compute."""
        return [n.operands[0] for n in (*self.reductions, *self.columns)] + list(self.outputs)


def split_phases(pattern: Pattern, elements: int, columns: Sequence[Node] = ()) -> list[Phase]:
    """Phases in order; a phase reads only reductions of earlier ones.

    Args:
        elements: elements of the domain; an output with as many is element-level.
        columns: reductions across rows, accumulated over all rows of a block.
    """
    depth = reduction_depths(pattern)
    reductions = [n for n in pattern.nodes if n.category is Category.REDUCTION and n not in columns]
    last = max((depth[n] for n in reductions), default=0)
    phases: list[Phase] = []
    for p in range(1, last + 2):
        here = tuple(n for n in reductions if depth[n] == p)
        stores = tuple(n for n in pattern.outputs if depth[n] == p - 1 and n.type.numel == elements
                       and n.category is not Category.REDUCTION)
        sums = tuple(n for n in columns if depth.get(n.operands[0], 0) == p - 1)
        if here or stores or sums:
            phases.append(Phase(here, stores, sums))
    return phases


def row_outputs(pattern: Pattern, phases: Sequence[Phase], rows: int) -> list[Node]:
    """Outputs that no phase writes: a number for each row, or a few, as the columns of a matmul that is inlined.

    Raises:
        ScheduleError: one that is not.
    """
    written = {n for p in phases for n in (*p.outputs, *p.columns)}
    found = [n for n in pattern.outputs if n not in written]
    for node in found:
        require_row_output(node, rows)
    return found


def require_row_output(node: Node, rows: int) -> None:
    """
    Raises:
        ScheduleError: an output that has neither one number for each row nor some reductions of it side by side.
    """
    if node.type.numel != rows and _reductions_beside(node) * rows != node.type.numel:
        raise ScheduleError(f"an output of {node.type} is neither a row nor an element of the domain", node.loc)


def _reductions_beside(node: Node) -> int:
    """How many reductions stand side by side in what an output is made of element by element; 0: in nothing."""
    found, stack = {node}, [node]
    while stack:
        part = stack.pop()
        if part.kind is OpKind.CONCAT:
            beside = [o.operands[0] if o.kind is OpKind.RESHAPE else o for o in part.operands]
            few = len(beside) <= MOST_BESIDE and all(o.category is Category.REDUCTION for o in beside)
            return len(beside) if few else 0
        if part.category is Category.ELEMENTWISE or part.kind is OpKind.RESHAPE:
            fresh = {o for o in part.operands if o.type.numel == node.type.numel} - found
            found |= fresh
            stack += fresh
    return 0


def reduction_depths(pattern: Pattern) -> dict[Node, int]:
    """Number of reductions in sequence that each node of the pattern waits for, itself included."""
    depth: dict[Node, int] = {}
    for node in pattern.nodes:
        below = max((depth.get(o, 0) for o in node.operands), default=0)
        depth[node] = below + (node.category is Category.REDUCTION)
    return depth


def relative_sum(pattern: Pattern, phases: Sequence[Phase]) -> tuple[Node, Node] | None:
    """A maximum of x and the sum of exp(x - maximum), if they are all that two phases compute: the sum can be taken
    relative to another number and scaled later, as long as nothing is staged that was computed from the maximum."""
    for first, second in pairwise(phases):
        if len(first.reductions) != 1 or len(second.reductions) != 1 or second.outputs:
            continue
        found = first.reductions[0], second.reductions[0]
        maximum, total = found
        if maximum.kind is OpKind.MAX and total.kind is OpKind.SUM and total.operands[0].kind is OpKind.EXP:
            exponential, *rest = exponentials(found)
            x, other = rest[0].operands if rest else (None, exponential)
            while other.kind in (OpKind.RESHAPE, OpKind.BROADCAST) and pattern.holds(other):
                other = other.operands[0]
            if x is maximum.operands[0] and other is maximum:
                return found
    return None


def exponentials(relative: tuple[Node, Node]) -> list[Node]:
    """What is computed of an element for a sum of exponentials: the exponential, and the difference below it."""
    exponential = relative[1].operands[0]
    return [exponential, *(o for o in exponential.operands if o.kind is OpKind.SUB)]


def read_by_exponentials_alone(pattern: Pattern, relative: tuple[Node, Node], phases: Sequence[Phase]) -> bool:
    """Whether later phases need the operand of the maximum for nothing but the exponential."""
    later = phases[[relative[1] in p.reductions for p in phases].index(True) + 1:]
    known = {exponentials(relative)[0]}
    return not any(relative[0].operands[0] in reached(pattern, phase.roots, known) for phase in later)


def reached(pattern: Pattern, roots: Sequence[Node], known: Collection[Node]) -> set[Node]:
    """Element-level values that roots are computed of, as far as those that are known."""
    found: set[Node] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in found or node.type.numel != roots[0].type.numel:
            continue
        found.add(node)
        if node not in known and pattern.holds(node) and node.category is not Category.REDUCTION:
            stack.extend(node.operands)
    return found


def prefetched_values(pattern: Pattern, staged: Sequence[Node]) -> list[Node]:
    """The values from outside among those that are staged over the phases of a row."""
    return [n for n in staged if not pattern.holds(n)]


def values_to_stage(pattern: Pattern, phases: list[Phase], elements: int, loads: bool, views: bool = False
                    ) -> list[Node]:
    """Element-level values computed in one phase and needed in a later, which are dear to compute again.

    Args:
        loads: whether a value read from memory counts as dear.
        views: also one that is read by another shape than it has there.
    """
    seen: set[Node] = set()
    staged: dict[Node, None] = {}
    for phase in phases:
        visited: set[Node] = set()
        stack = phase.roots
        while stack:
            node = stack.pop()
            if node in visited or node.type.numel != elements:
                continue
            visited.add(node)
            if node in pattern.free:  # computed wherever it is needed; a reshape is what it reads, as that lies
                stack.extend(node.operands if views and node.kind is OpKind.RESHAPE else ())
                continue
            outside = not pattern.holds(node)
            if node in seen and (loads if outside else is_dear(node, pattern)):
                staged[node] = None
                continue
            if not outside and node.category is not Category.REDUCTION:
                stack.extend(node.operands)
        seen |= visited
    return list(staged)


def values_to_read_early(pattern: Pattern, phases: Sequence[Phase], elements: int) -> list[Node]:
    """Values from outside that a later phase is the first to need, element by element as they lie in memory: read in
    the first one they are not waited for behind its reductions."""
    first, *later = ([*_read_as_they_lie(pattern, phase.roots, elements)] for phase in phases)
    return list(dict.fromkeys(n for nodes in later for n in nodes if n not in first))


def _read_as_they_lie(pattern: Pattern, roots: Sequence[Node], elements: int) -> dict[Node, None]:
    found, visited, stack = dict[Node, None](), set[Node](), list(roots)
    while stack:
        node = stack.pop()
        if node in visited or node.type.numel != elements or node.category is Category.REDUCTION:
            continue
        visited.add(node)
        if not pattern.holds(node):
            found[node] = None
        elif node.category is Category.ELEMENTWISE or node.kind is OpKind.RESHAPE:
            stack.extend(node.operands)
    return found


def is_dear(node: Node, pattern: Pattern) -> bool:
    """Whether a value is cheaper to stage than to compute again."""
    return cost_of(node, pattern) >= HEAVY


def cost_of(node: Node, pattern: Pattern) -> int:
    """Cycles to compute `node` from what it reads, sharing counted once."""
    total, stack, visited = 0, [node], set[Node]()
    while stack:
        n = stack.pop()
        if n in visited or not pattern.holds(n) or n.category is Category.REDUCTION or n.type.numel != node.type.numel:
            continue
        visited.add(n)
        total += n.info.cost
        stack.extend(n.operands)
    return total
