"""Region identification (AStitch section 4.1): memory-intensive subgraphs by search along edges, then remote
stitching of regions that do not depend on each other. Works on names alone; the graph stays acyclic throughout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tf_stitch.planning.contraction import AcyclicContraction

REMOTE_BYTES = 64 << 20
"""Inputs that remote stitching may keep alive in one region: it waits for the last of its inputs."""


@dataclass(frozen=True)
class RegionNode:
    """One TensorFlow node as region identification sees it.

    Attributes:
        inputs: names of nodes whose data it reads.
        controls: names of nodes it has to follow.
        place: device, loop frame and conditional branch; None for a node that no region may hold.
        weight: 0 for a node that costs nothing by itself.
        sink: an update of state: nobody waits for its data.
        nbytes: bytes of its results, 0 if unknown.
    """

    name: str
    inputs: tuple[str, ...]
    controls: tuple[str, ...]
    place: tuple[object, ...] | None
    weight: int
    sink: bool = False
    nbytes: int = 0


def find_regions(nodes: Sequence[RegionNode], min_weight: int, remote: bool = True) -> list[list[str]]:
    """Convex, disjoint sets of nodes; names in topological order.

    Args:
        nodes: in topological order over inputs and controls.
        min_weight: a region of less weight is not worth its op.
        remote: also merge regions of updates that are independent of each other (A2).
    """
    by_name = {n.name: n for n in nodes}
    order = {n.name: i for i, n in enumerate(nodes)}
    edges = [(p, n.name) for n in nodes for p in (*n.inputs, *n.controls)]
    groups = AcyclicContraction([n.name for n in nodes], edges)
    pending = [(before, node.name) for node in nodes if node.place is not None
               for before in dict.fromkeys((*node.inputs, *(c for c in node.controls if by_name[c].sink or node.sink)))
               if by_name[before].place == node.place]
    merged = True
    while merged:  # what one group in between forbids may be possible once that has been merged itself
        left = [(a, b) for a, b in pending if not groups.merge(a, b)]
        merged, pending = len(left) < len(pending), left
    if remote:
        _stitch_remote(nodes, by_name, groups)
    regions = [sorted(g, key=lambda n: order[n]) for g in groups.groups() if by_name[g[0]].place is not None]
    return [r for r in regions if sum(by_name[n].weight for n in r) >= min_weight]


def _stitch_remote(nodes: Sequence[RegionNode], by_name: dict[str, RegionNode],
                   groups: AcyclicContraction[str]) -> None:
    """Regions that update state are merged with each other, up to REMOTE_BYTES of results a region."""
    current: dict[tuple[object, ...], tuple[str, int]] = {}
    for node in nodes:
        if not node.sink or node.place is None:
            continue
        members = groups.members(node.name)
        size = sum(by_name[m].nbytes for m in members if by_name[m].sink)
        known = current.get(node.place)
        if known is not None and groups.find(known[0]) == groups.find(node.name):
            continue
        if known is not None and known[1] + size <= REMOTE_BYTES and groups.merge(known[0], node.name):
            current[node.place] = (known[0], known[1] + size)
        else:
            current[node.place] = (node.name, size)
