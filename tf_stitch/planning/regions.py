"""Region identification (AStitch section 4.1): memory-intensive subgraphs by search along edges, then remote
stitching of regions that do not depend on each other. Works on names alone; the graph stays acyclic throughout."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.planning.contraction import AcyclicContraction
from tf_stitch.planning.remote_stitching import Profiles, RegionNode, stitch_remote


def find_regions(nodes: Sequence[RegionNode], min_weight: int, profiles: Profiles | None) -> list[list[str]]:
    """Convex, disjoint sets of nodes; names in topological order.

    Args:
        nodes: in topological order over inputs and controls.
        min_weight: a region of less weight is not worth its op.
        profiles: of the devices, by which regions that are independent of each other are merged, too (A2); without them
            they stay apart.
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
    if profiles is not None:
        stitch_remote(nodes, groups, profiles)
    regions = [sorted(g, key=lambda n: order[n]) for g in groups.groups() if by_name[g[0]].place is not None]
    return [r for r in regions if sum(by_name[n].weight for n in r) >= min_weight]
