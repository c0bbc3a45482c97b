"""The fusion plan: which nodes of a region become one kernel."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from tf_stitch.ir.graph import Node, TensorGraph, users_of, view_of
from tf_stitch.ir.matrices import is_in_kernel, terms_of
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.op_kinds import CALLED, Category, OpKind
from tf_stitch.ir.strided_view import path_to
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.libraries.attention import ATTENTION
from tf_stitch.libraries.call import Library
from tf_stitch.libraries.registry import LIBRARIES, library_of
from tf_stitch.planning.attention import Attention, attention_to, memory_of, reads_rows, views_of
from tf_stitch.planning.attention_gradient import AttentionGradient
from tf_stitch.planning.called_attention import CalledAttention, called_attentions
from tf_stitch.planning.find_attention_gradients import gradient_to
from tf_stitch.planning.solver_report import SolverReport
from tf_stitch.planning.stitched_matmul import as_stitched_matmul
from tf_stitch.planning.views_for_lookups import looked_up_alone
from tf_stitch.planning.views_for_matmuls import views_for_matmuls

_INLINE_SOURCES = (OpKind.CONSTANT, OpKind.EXTENT, OpKind.IOTA)
LARGEST_INLINE_CONSTANT = 4096


AttentionKernel: TypeAlias = Attention | AttentionGradient


def free_nodes(nodes: Sequence[Node], attentions: Iterable[AttentionKernel] = (),
               wanted: frozenset[Node] = frozenset(), libraries: Sequence[Library] = LIBRARIES) -> frozenset[Node]:
    """Nodes that any kernel may recompute at no cost worth counting: constants, iotas, arithmetic on single elements
    (a learning rate, a bias correction), windows, which repeat what memory holds, reshapes beside matmuls and for
    lookups, which take memory as it lies, and transposes (of some libraries slices, too) that only matmuls read, at the
    distances of what lies in memory. So do the kernels of attentions, which make masks that nobody else reads
    themselves, and calls that compute attentions. They belong to no pattern.

    Args:
        nodes: static nodes, operands first.
        attentions: what becomes a kernel each.
        wanted: values that memory has to hold: who needs a kernel's value in such another form reads that.
        libraries: whose calls compute large matmuls.
    """
    free: set[Node] = set()
    users = users_of(nodes)
    for node in nodes:
        movable = node.category in (Category.ELEMENTWISE, Category.MOVEMENT) and node.kind is not OpKind.GATHER
        if node.kind in _INLINE_SOURCES or _is_of_windows(node) or (movable and node.type.numel == 1
                                            and all(o in free or _is_scalar_input(o) for o in node.operands)):
            free.add(node)
        if node.kind is OpKind.RESHAPE and (view_of(node).category in CALLED or looked_up_alone(node, users)):
            free.add(node)
        elif node.category in CALLED and node.category is not Category.ATTENTION:
            free.update(view for operand in node.operands for view in _views(operand))
    readers = [(node, library) for node in nodes if is_large_matmul(node)
               and (library := library_of(node, libraries)) is not None]
    free -= {element for node in nodes if node.category in CALLED for element in _single_elements(node)}
    free |= views_for_matmuls(readers, nodes, users, lambda node: node in wanted and _is_memory(node), free)
    free |= _of_attentions(list(attentions), list(called_attentions(nodes)), nodes, users, free)
    return frozenset(node for node in free if not (node in wanted and _is_stored_anew(node)))


def _is_of_windows(node: Node) -> bool:
    return node.kind is OpKind.WINDOWS or (node.kind is OpKind.CAST and node.operands[0].kind is OpKind.WINDOWS)


def _single_elements(called: Node) -> Iterator[Node]:
    """What a node reads that is one element, and computed: a library's call reads memory, and makes nothing anew."""
    for operand in called.operands:
        path = path_to(operand, lambda node: False)
        for node in (path[0].operands[0] if path else operand, *path):
            if node.type.numel == 1 and node.kind not in (*_INLINE_SOURCES, OpKind.RESHAPE):
                yield node


def _of_attentions(kernels: Sequence[AttentionKernel], calls: Sequence[CalledAttention], nodes: Sequence[Node],
                   users: dict[Node, list[Node]], free: set[Node]) -> set[Node]:
    """Views that only kernels and calls of attention read, elements that only kernels do, and results of all these by
    another shape. What one of them cannot read as it lies is no view."""
    attentions: list[AttentionKernel | CalledAttention] = [*kernels, *calls]
    if not attentions:
        return set()
    inside = {node for attention in kernels for node in attention.nodes}
    operands = [operand for attention in attentions for operand in attention.operands]
    called = {operand for call in calls for operand in call.operands}
    views = views_of(operands, inside | {node for call in calls for node in call.nodes}, users, free)
    for operand in operands:
        memory, path = memory_of(operand, free | views)
        if not reads_rows(operand, path, memory) or (path and operand in called and not ATTENTION.reads(path)):
            views -= set(path)
    results = {result for attention in attentions for result in attention.results}
    reshaped = {node for node in nodes if node.kind is OpKind.RESHAPE and view_of(node) in results}
    return views | reshaped | set(_cheap_elements(nodes, inside, users))


MOST_CYCLES, MOST_LOADS = 16, 3
"""Of an element that several kernels of attention make anew. A kernel that writes it for them takes longer, if only to
be launched: masks of sequences are small."""


def _cheap_elements(nodes: Sequence[Node], inside: Collection[Node], users: dict[Node, list[Node]]) -> Iterator[Node]:
    """Elements that are read beside scores alone, and are made in a few cycles of what lies in memory.

    Args:
        nodes: operands first.
        inside: nodes of the kernels.
    """
    reads: dict[Node, dict[Node, int]] = {}  # cycles of what an element is made of; of what lies in memory none
    for node in nodes:
        if node in inside or not (node.category is Category.ELEMENTWISE
                                  or node.kind in (OpKind.RESHAPE, OpKind.BROADCAST)):
            continue
        parts = {node: node.info.cost}
        for operand in node.operands:
            parts |= reads.get(operand, {operand: 0})
        if sum(parts.values()) <= MOST_CYCLES:
            loads = sum(not cycles and o.kind not in _INLINE_SOURCES for o, cycles in parts.items())
            if loads <= MOST_LOADS:
                reads[node] = parts
    found: set[Node] = set()
    for node in reversed(nodes):
        if node in reads and users[node] and all(
                user in found or (user in inside and user.kind is not OpKind.DOT) for user in users[node]):
            found.add(node)
            yield node


def _is_stored_anew(node: Node) -> bool:
    return _is_of_windows(node) or (node.kind is OpKind.RESHAPE and _is_memory(node))


def _is_memory(wanted: Node) -> bool:
    """Whether a value that is needed by itself gets memory where it is needed; the others lie there anyway."""
    return wanted.kind is not OpKind.RESHAPE or view_of(wanted).category not in (Category.SOURCE, *CALLED)


SMALL_MATMUL = 16
"""Terms of a sum, or columns, up to which a matmul can be inlined as element-wise ops."""
LONGEST_SUM = 4096
"""Terms of each of a few columns; longer sums have to be split over the device, as libraries do."""


def is_small_matmul(node: Node) -> bool:
    """A matmul with few terms per element, or few columns: a kernel may compute it along with what is around it
    (transforms/inline_small_matmuls.py). Not by a number that changes: each would be another kernel."""
    if not isinstance(node.attrs, DotAttrs) or not node.type.dtype.is_float:
        return False
    terms, columns = terms_of(node), node.type.dims[-1]
    if 0 < terms <= SMALL_MATMUL and not isinstance(terms, SymbolicDim):
        return True
    return 0 < columns <= SMALL_MATMUL and not isinstance(columns, SymbolicDim) \
        and terms <= LONGEST_SUM and not node.attrs.transpose_a


def alone(node: Node) -> Pattern:
    """A node that reads its operands from memory, and is stored."""
    return Pattern((node,), (node,), frozenset())


def is_large_matmul(node: Node) -> bool:
    """A matmul that only a library call computes."""
    return node.category is Category.CONTRACTION and not is_small_matmul(node)


def is_large(node: Node) -> bool:
    """What only a library call computes, where there is one: a convolution, an attention, a matmul of float8 or of many
    terms."""
    called = (Category.CONVOLUTION, Category.FLOAT8_CONTRACTION, Category.ATTENTION)
    return node.category in called or is_large_matmul(node)


def needs_library(node: Node, libraries: Sequence[Library]) -> bool:
    """Whether a call of one of these libraries has to compute this node: no kernel holds it, attention apart."""
    return library_of(node, libraries) is not None and not is_small_matmul(node)


def _views(node: Node) -> Iterator[Node]:
    while node.kind is OpKind.RESHAPE:
        yield node
        node = node.operands[0]


def _is_scalar_input(node: Node) -> bool:
    return node.kind in (OpKind.INPUT, OpKind.VARIABLE) and node.type.numel == 1


@dataclass(frozen=True)
class Pattern:
    """Nodes that become one kernel (operands first), and those of them whose values are needed outside."""

    nodes: tuple[Node, ...]
    outputs: tuple[Node, ...]
    free: frozenset[Node]

    def holds(self, node: Node) -> bool:
        """Whether a kernel of this pattern computes `node` itself."""
        return node in self._members or node in self.free

    @cached_property
    def _members(self) -> frozenset[Node]:
        return frozenset(self.nodes)

    def name(self, node: Node) -> str:
        """The user's node that a value is, or "for" the one that it is a step towards; "" if nobody knows."""
        name = node.loc.node
        return f"for {name}" if name and node in self._steps else name

    def names(self, nodes: Iterable[Node]) -> tuple[str, ...]:
        """Names of values, each once."""
        return tuple(dict.fromkeys(name for name in map(self.name, nodes) if name))

    @cached_property
    def _steps(self) -> frozenset[Node]:
        found: set[Node] = set()
        for node in reversed(self.nodes):
            if node.kind is not OpKind.RESHAPE or node in found:  # what is the same in memory has the same name
                found.update(o for o in node.operands if o.loc.node == node.loc.node)
        return frozenset(found)

    def reads(self) -> list[Node]:
        """Values that come from outside, in order of first use, through free nodes too."""
        return list(self._reads)

    @cached_property
    def _reads(self) -> tuple[Node, ...]:
        found: dict[Node, None] = {}
        seen: set[Node] = set()

        def visit(node: Node) -> None:
            for operand in node.operands:
                if operand in self._members or operand in seen:
                    continue
                seen.add(operand)
                if operand in self.free:
                    visit(operand)
                else:
                    found[operand] = None

        for node in self.nodes:
            visit(node)
        return tuple(found)


def make_pattern(nodes: Iterable[Node], users: dict[Node, list[Node]], wanted: frozenset[Node],
                 free: frozenset[Node]) -> Pattern:
    """A pattern of `nodes` (operands first).

    Args:
        users: users of every node of the region.
        wanted: live-out values of the region.
    """
    ordered = tuple(nodes)
    members = frozenset(ordered)
    outputs = tuple(n for n in ordered if n in wanted or _needed_outside(n, members, users, wanted, free))
    return Pattern(ordered, outputs, free)


def _needed_outside(node: Node, members: frozenset[Node], users: dict[Node, list[Node]], wanted: frozenset[Node],
                    free: frozenset[Node]) -> bool:
    """Whether others read a value, perhaps to compute a free node anew: also a live-out of the pattern."""
    return any((u not in members and (u not in free or u in wanted))
               or (u in free and _needed_outside(u, members, users, wanted, free)) for u in users[node])


def between(pattern: Pattern) -> list[Node]:
    """The pattern's nodes and the free nodes that lead from one to another, operands first."""
    members = set(pattern.nodes)
    order: dict[Node, None] = {}

    def visit(node: Node) -> bool:
        """Whether a member is above."""
        if node in order:
            return True
        if node not in members and node not in pattern.free:
            return False
        above = [visit(o) for o in node.operands]
        if node in members or any(above):
            order[node] = None
            return True
        return False

    for node in pattern.nodes:
        visit(node)
    return list(order)


def is_library_call(pattern: Pattern, libraries: Sequence[Library]) -> bool:
    """Whether a pattern is a root of calls of these libraries alone, or one that no kernel holds, with what the library
    does to its result."""
    first = pattern.nodes[0]
    if len(pattern.nodes) == 1:
        return library_of(first, libraries) is not None and not is_in_kernel(first)
    return needs_library(first, libraries) and attention_of(pattern) is None and not is_stitched(pattern, libraries)


def is_stitched(pattern: Pattern, libraries: Sequence[Library]) -> bool:
    """Whether a pattern is a large matmul that a kernel has, or one with more around it than a library call
    computes."""
    stitched = as_stitched_matmul(between(pattern))
    if stitched is None or not is_large_matmul(stitched.matmul):
        return False
    if len(pattern.nodes) == 1 or is_in_kernel(stitched.matmul):
        return is_in_kernel(stitched.matmul)
    library = library_of(stitched.matmul, libraries)
    first = pattern.nodes[0]
    return first is not stitched.matmul or library is None or library.match(between(pattern)) is None


def attention_of(pattern: Pattern) -> AttentionKernel | None:
    """The attention, or the gradient of one, that a pattern is, if it is one."""
    matmuls = [n for n in pattern.nodes if is_large_matmul(n)]
    if not 2 <= len(matmuls) <= 4:
        return None
    users = users_of(pattern.nodes)
    found: AttentionKernel | None = attention_to(matmuls[-1], users, ()) if len(matmuls) == 2 else None
    if len(matmuls) > 2:
        found = next(filter(None, (gradient_to(matmul, users, ()) for matmul in reversed(matmuls))), None)
    return found if found is not None and set(found.nodes) == set(pattern.nodes) else None


@dataclass
class StitchPlan:
    """Patterns in an order in which they can run, covering every node with work in it.

    Attributes:
        libraries: whose calls some of the patterns are.
    """

    graph: TensorGraph
    patterns: list[Pattern]
    solver: SolverReport | None = None
    free: frozenset[Node] = field(default_factory=frozenset)
    libraries: tuple[Library, ...] = LIBRARIES

    def split(self, pattern: Pattern) -> list[Pattern]:
        """Puts a pattern for each node in place of one that turned out to be no kernel, and returns these."""
        singles = self.singles(pattern)
        at = self.patterns.index(pattern)
        self.patterns[at:at + 1] = singles
        return singles

    def singles(self, pattern: Pattern) -> list[Pattern]:
        """A pattern for each node of one."""
        users, wanted = self._facts
        return [make_pattern((node,), users, wanted, self.free) for node in pattern.nodes]

    @cached_property
    def _facts(self) -> tuple[dict[Node, list[Node]], frozenset[Node]]:
        return users_of(self.graph.nodes()), frozenset(live_out(self.graph))


def plannable(graph: TensorGraph, free: frozenset[Node]) -> list[Node]:
    """Nodes that need a kernel or a library call: all but sources, effects and free nodes; free nodes that are
    live-out need one too, unless they are a reshaped matmul."""
    wanted = frozenset(live_out(graph))
    skip = (Category.SOURCE, Category.EFFECT)
    return [n for n in graph.nodes() if (n.category not in skip and n not in free)
            or (n in wanted and n.kind not in (OpKind.INPUT, OpKind.VARIABLE) and view_of(n).category not in CALLED)]


def live_out(graph: TensorGraph) -> list[Node]:
    """Values that memory has to hold: those behind the outputs (the operand of an assign), and what a library call
    reads that kernels would compute by the way, such as a constant. (A matmul reads a transpose as it lies.)"""
    ends = [n.operands[0] if n.kind is OpKind.ASSIGN else n for _, n in graph.outputs]
    nodes = graph.nodes()
    read = [(node, view_of(operand)) for node in nodes if node.category in CALLED for operand in node.operands]
    by_the_way = [value for call, value in read if value.kind in _INLINE_SOURCES or (
        value.type.numel == 1 and not (value.kind is OpKind.TRANSPOSE and call.category is Category.CONTRACTION))]
    free = free_nodes(nodes) if by_the_way else ()
    return list(dict.fromkeys([*ends, *(node for node in by_the_way if node in free)]))
