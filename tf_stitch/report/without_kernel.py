"""Why a node of a region is no part of any kernel: it costs nothing, or its work is done elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import Category, OpKind

CONSTANT = "a constant, written into the kernels that use it"
KNOWN = "its value is known when the kernels are built: nothing is left to compute"
SCALAR = "a single element: each kernel that needs it computes it by the way"
VIEW = "moves no data: kernels find its operand's elements by index arithmetic"
VARIABLE = "a variable, which kernels read in place"
MERGED = "another node gives the same value, or an equal formula with fewer nodes took its place"


def without_kernel(graph: TensorGraph, free: Collection[Node], in_kernels: Collection[str],
                   own_names: Mapping[str, str]) -> dict[str, list[str]]:
    """Reason -> the user's nodes, for nodes that have IR and no kernel.

    Args:
        graph: the region as it was imported, in the names of this region.
        free: nodes that every kernel may compute by the way, after all passes.
        in_kernels: names of nodes that kernels compute.
        own_names: names in the region that was compiled -> names in this one, of equal structure.
    """
    by_the_way = {own_names.get(n.loc.node, n.loc.node) for n in free}
    by_name: dict[str, list[Node]] = {}
    known: set[Node] = set()
    for node in graph.nodes():
        if _is_known(node, known):
            known.add(node)
        if node.loc.node and node.loc.node not in in_kernels:
            by_name.setdefault(node.loc.node, []).append(node)
    found: dict[str, list[str]] = {}
    for name, nodes in by_name.items():
        found.setdefault(_reason(nodes, known, name in by_the_way), []).append(name)
    return found


def _is_known(node: Node, known: Collection[Node]) -> bool:
    """Whether no input and no variable has a part in its value; sizes are numbers by now."""
    if node.kind in (OpKind.INPUT, OpKind.VARIABLE):
        return False
    return node.kind is OpKind.EXTENT or all(operand in known for operand in node.operands)


def _reason(nodes: Sequence[Node], known: Collection[Node], by_the_way: bool) -> str:
    kinds = {n.kind for n in nodes}
    if kinds <= {OpKind.VARIABLE, OpKind.INPUT}:
        return VARIABLE
    if kinds == {OpKind.CONSTANT}:
        return CONSTANT
    if nodes[-1] in known:
        return KNOWN
    if all(n.category in (Category.MOVEMENT, Category.SOURCE, Category.EFFECT) for n in nodes):
        return VIEW
    return SCALAR if by_the_way and nodes[-1].type.numel == 1 else MERGED
