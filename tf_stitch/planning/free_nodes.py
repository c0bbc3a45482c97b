"""Free nodes: those that kernels recompute at no cost, and the nodes and values that are left for patterns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from tf_stitch.ir.graph import Node, TensorGraph, users_of, view_of
from tf_stitch.ir.op_kinds import CALLED, Category, OpKind
from tf_stitch.ir.strided_view import path_to
from tf_stitch.libraries.attention import ATTENTION
from tf_stitch.libraries.call import Library
from tf_stitch.libraries.registry import LIBRARIES, library_of
from tf_stitch.planning.attention import memory_of, reads_rows, views_of
from tf_stitch.planning.called_attention import CalledAttention, called_attentions
from tf_stitch.planning.matmul_sizes import is_large_matmul
from tf_stitch.planning.pattern_kind import AttentionKernel
from tf_stitch.planning.views_for_lookups import looked_up_alone
from tf_stitch.planning.views_for_matmuls import views_for_matmuls

_INLINE_SOURCES = (OpKind.CONSTANT, OpKind.EXTENT, OpKind.IOTA)
LARGEST_INLINE_CONSTANT = 4096


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
        wanted: values that memory has to hold: what needs a kernel's value in such another form reads that.
        libraries: whose calls compute large matmuls.
    """
    free: set[Node] = set()
    users = users_of(nodes)
    for node in nodes:
        if node.kind in _INLINE_SOURCES or _is_of_windows(node) or _is_element_of(node, free):
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


def _is_element_of(node: Node, free: Collection[Node]) -> bool:
    """Whether it is arithmetic on single elements that are free, or inputs."""
    movable = node.category in (Category.ELEMENTWISE, Category.MOVEMENT) and node.kind is not OpKind.GATHER
    return movable and node.type.numel == 1 and all(o in free or _is_scalar_input(o) for o in node.operands)


def _is_of_windows(node: Node) -> bool:
    return node.kind is OpKind.WINDOWS or (node.kind is OpKind.CAST and node.operands[0].kind is OpKind.WINDOWS)


def _single_elements(called: Node) -> Iterator[Node]:
    """What a node reads that is one element, and computed: a library's call reads memory, and recomputes nothing."""
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
"""Of an element that several kernels of attention recompute. A kernel that writes it for them takes longer, if only to
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



def _views(node: Node) -> Iterator[Node]:
    while node.kind is OpKind.RESHAPE:
        yield node
        node = node.operands[0]



def _is_scalar_input(node: Node) -> bool:
    return node.kind in (OpKind.INPUT, OpKind.VARIABLE) and node.type.numel == 1



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
