"""Region identification (AStitch section 4.1): memory-intensive subgraphs by search along edges, seams between them by
cost, then remote stitching of regions that do not depend on each other. Works on names alone; the graph stays acyclic
throughout."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.planning.acyclic_contraction import AcyclicContraction
from tf_stitch.planning.remote_stitching import Profiles, RegionNode, stitch_remote
from tf_stitch.planning.seams import Seams

Edge = tuple[str, str]
"""(node that runs before, node that needs it)."""


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
    mergeable = [(before, node.name) for node in nodes if node.place is not None
                 for before in dict.fromkeys((*node.inputs, *(c for c in node.controls
                                                              if by_name[c].sink or node.sink)))
                 if by_name[before].place == node.place]
    groups = AcyclicContraction([n.name for n in nodes], edges)
    left = _grow(groups, mergeable)
    if profiles is not None:
        groups = _by_cost(nodes, groups, edges, mergeable, left, profiles)
        stitch_remote(nodes, groups, profiles)
    regions = [sorted(g, key=lambda n: order[n]) for g in groups.groups() if by_name[g[0]].place is not None]
    return [r for r in regions if sum(by_name[n].weight for n in r) >= min_weight]


def _grow(groups: AcyclicContraction[str], mergeable: Sequence[Edge]) -> list[Edge]:
    """Merges along edges as far as that closes no cycle; edges that are left."""
    pending, merged = list(mergeable), True
    while merged:  # what one group in between forbids may be possible once that has been merged itself
        left = [(a, b) for a, b in pending if not groups.merge(a, b)]
        merged, pending = len(left) < len(pending), left
    return pending


def _by_cost(nodes: Sequence[RegionNode], groups: AcyclicContraction[str], edges: Sequence[Edge],
             mergeable: Sequence[Edge], left: Sequence[Edge], profiles: Profiles) -> AcyclicContraction[str]:
    """The groups, or others whose seams cost less."""
    seams = Seams(nodes)
    sides = seams.sides(groups, left, profiles)
    if not sides:
        return groups
    other = AcyclicContraction([n.name for n in nodes], edges)
    together = [(a, b) for a, b in mergeable
                if groups.find(sides.get(a, a)) == groups.find(sides.get(b, b))]  # first: they forbid others
    _grow(other, together)
    _grow(other, mergeable)
    return min(groups, other, key=lambda found: seams.cost_us(found, profiles))
