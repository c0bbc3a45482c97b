"""Whether chosen patterns can run one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx

from tf_stitch.ir.graph import Node


def contracted_graph(patterns: Sequence[frozenset[Node]], nodes: Sequence[Node]) -> nx.DiGraph:
    """The graph whose nodes are pattern indices and, for nodes in no pattern, the nodes themselves."""
    owner: dict[Node, int | Node] = {n: n for n in nodes}
    for j, pattern in enumerate(patterns):
        for n in pattern:
            owner[n] = j
    graph = nx.DiGraph()
    graph.add_nodes_from(owner.values())
    for n in nodes:
        for o in n.operands:
            if o in owner and owner[o] is not owner[n] and owner[o] != owner[n]:
                graph.add_edge(owner[o], owner[n])
    return graph


def find_cycle(patterns: Sequence[frozenset[Node]], nodes: Sequence[Node]) -> tuple[int, ...] | None:
    """Indices of patterns on a cycle of the contracted graph, None if it is acyclic."""
    try:
        edges = nx.find_cycle(contracted_graph(patterns, nodes))
    except nx.NetworkXNoCycle:
        return None
    return tuple(sorted({e[0] for e in edges if isinstance(e[0], int)}))
