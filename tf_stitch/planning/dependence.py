"""What has to run before what: data, through nodes that every kernel recomputes, and readers of a variable, or of what
a scatter writes over, before the kernel that does so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import networkx as nx

from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import AssignAttrs, ScatterAttrs, VariableAttrs

Edge = tuple[int, int]
"""(before, after), as positions."""


def dependencies(nodes: Sequence[Node], work: Sequence[Node]) -> list[tuple[int, ...]]:
    """For every node of `work` the positions in `work` of those whose values it needs, through nodes of no kernel.

    Args:
        nodes: of the whole graph, operands first.
        work: in the same order.
    """
    position = {n: i for i, n in enumerate(work)}
    behind: dict[Node, tuple[int, ...]] = {}  # of every node, through free ones
    needs: list[tuple[int, ...]] = [()] * len(work)
    for node in nodes:
        found: dict[int, None] = {}
        for operand in node.operands:
            if operand in position:
                found[position[operand]] = None
            else:
                found.update(dict.fromkeys(behind[operand]))
        behind[node] = tuple(found)
        if node in position:
            needs[position[node]] = behind[node]
    return needs


def update_edges(graph: TensorGraph, nodes: Sequence[Node], work: Sequence[Node]) -> list[Edge]:
    """(node that reads an old value, node that computes the new one), of variables and of scatters in place: in this
    order the new one can lie where the old one does. Some of the edges may contradict the data."""
    position = {n: i for i, n in enumerate(work)}
    scatters = [n for n in nodes if isinstance(n.attrs, ScatterAttrs) and n.attrs.in_place and n in position]
    old_values = {n.operands[0] for n in scatters}
    readers: dict[Node, set[int]] = {}  # of each old value, and of each node with no kernel of its own
    variables: dict[str, Node] = {}
    for node in reversed(nodes):
        if isinstance(node.attrs, VariableAttrs):
            variables[node.attrs.handle] = node
        for operand in node.operands:
            if isinstance(operand.attrs, VariableAttrs) or operand in old_values or operand not in position:
                mine = {position[node]} if node in position else readers.get(node, set())
                readers.setdefault(operand, set()).update(mine)
    edges = [(reader, position[n]) for n in scatters for reader in sorted(readers[n.operands[0]])
             if reader != position[n]]
    for _, node in graph.outputs:
        if isinstance(node.attrs, AssignAttrs) and node.attrs.handle in variables:
            writer = position.get(node.operands[0])
            if writer is not None:
                old = readers.get(variables[node.attrs.handle], set())
                edges += [(reader, writer) for reader in sorted(old) if reader != writer]
    return edges


def representatives(sets: Iterable[Sequence[int]]) -> dict[int, int]:
    """For every element one that stands for it: the same for those of sets that overlap, directly or through others."""
    joined = nx.utils.UnionFind()
    for members in sets:
        joined.union(*members)
    return {element: joined[element] for element in list(joined)}


def order_groups(groups: Sequence[Iterable[int]], needs: Sequence[Sequence[int]], wishes: Sequence[Edge]) -> list[int]:
    """Indices of disjoint groups that cover every position, each after what it needs; `wishes` are kept as far as they
    do not contradict the rest. Ties by the first position of a group.

    Raises:
        ValueError: the groups need each other.
    """
    owner = {p: g for g, group in enumerate(groups) for p in group}
    first = [min(group) for group in groups]
    hard = {(owner[before], owner[p]) for p, befores in enumerate(needs) for before in befores}
    both = hard | {(owner[a], owner[b]) for a, b in wishes}
    graph = nx.DiGraph((a, b) for a, b in both if a != b)
    graph.add_nodes_from(range(len(groups)))
    component = {g: i for i, members in enumerate(nx.strongly_connected_components(graph)) for g in members}
    graph.remove_edges_from([(a, b) for a, b in graph.edges if (a, b) not in hard and component[a] == component[b]])
    try:
        return list(nx.lexicographical_topological_sort(graph, key=first.__getitem__))
    except nx.NetworkXUnfeasible:
        raise ValueError("groups need each other") from None
