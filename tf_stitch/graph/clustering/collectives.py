"""Collectives end when all of their members are there, which no edge of a graph says: what one of them waits for, the
others wait for, too. A region that held something before one and something behind another would wait for itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, ImportedNode, producer_of
from tf_stitch.graph.passes.all_reduces import ALL_REDUCE
from tf_stitch.graph.passes.exchanges import EXCHANGE
from tf_stitch.planning.dependence import order_groups
from tf_stitch.planning.remote_stitching import RegionNode

_OPS = ("Collective", "NcclAllReduce", ALL_REDUCE, EXCHANGE)
"""How the names of collective ops begin."""


def is_collective(node: ImportedNode) -> bool:
    """Whether it ends when all devices are there."""
    return node.op.startswith(_OPS)


def waits_for_others(imported: ImportedGraph) -> dict[str, tuple[str, ...]]:
    """For each collective, what the collectives wait for that may be the same one on other devices: an input says when
    they run which are, and all of them have equally many collectives before them."""
    levels: dict[str, int] = {}
    members: dict[int, list[ImportedNode]] = {}
    for node in imported.nodes.values():
        before = [name for name in nodes_before(node) if name in levels]
        levels[node.name] = max((levels[b] + is_collective(imported.nodes[b]) for b in before), default=0)
        if is_collective(node):
            members.setdefault(levels[node.name], []).append(node)
    return {node.name: _of_others(node, same) for same in members.values() for node in same}


def nodes_before(node: ImportedNode) -> Iterable[str]:
    """Names of nodes whose data it reads, or that it has to follow."""
    yield from (producer_of(tensor) for tensor in node.inputs)
    yield from node.control_inputs


def _of_others(node: ImportedNode, same: Sequence[ImportedNode]) -> tuple[str, ...]:
    own = set(nodes_before(node))
    return tuple(dict.fromkeys(name for other in same for name in nodes_before(other) if name not in own))


def in_order(nodes: Sequence[RegionNode], later: Mapping[str, Iterable[str]]) -> list[RegionNode]:
    """The nodes in topological order over inputs and controls, as near to the order that they have as can be.

    Args:
        later: of some nodes, those of their controls that the order at hand does not know; the graph is acyclic with
            them.
    """
    if not any(later.values()):
        return list(nodes)
    place = {node.name: i for i, node in enumerate(nodes)}
    needs = [[place[b] for b in (*node.inputs, *node.controls) if place[b] < i or b in later.get(node.name, ())]
             for i, node in enumerate(nodes)]
    return [nodes[i] for i in order_groups([[i] for i in range(len(nodes))], needs, ())]
