"""Seams between regions, by cost: what may run before a seam or behind it runs where fewer bytes cross.

Growing along edges puts a node into the region of its producers. Where a later region is the only one to read it, it
may as well be part of that one: the derivative of an activation, say, that only the backward pass needs, and that is
made of what is in memory for a matmul in any case. Which of these nodes move is a minimum cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import networkx as nx

from tf_stitch.planning.acyclic_contraction import AcyclicContraction
from tf_stitch.planning.remote_stitching import Profiles, RegionNode, memory_us, profile_of, saved_us

_BEHIND, _BEFORE = 0, 1  # the ends of a cut, beside which it has nodes by their names


class Seams:
    """Costs of seams in a graph.

    Args:
        nodes: in topological order over inputs and controls.
    """

    def __init__(self, nodes: Sequence[RegionNode]) -> None:
        self._node = {n.name: n for n in nodes}
        self._order = {n.name: i for i, n in enumerate(nodes)}
        self._readers: dict[str, list[str]] = {n.name: [] for n in nodes}
        self._followers: dict[str, list[str]] = {n.name: [] for n in nodes}
        for node in nodes:
            for p in dict.fromkeys(node.inputs):
                self._readers[p].append(node.name)
            for p in dict.fromkeys((*node.inputs, *node.controls)):
                self._followers[p].append(node.name)

    def cost_us(self, groups: AcyclicContraction[str], profiles: Profiles) -> float:
        """What regions cost beside their work: their ops, what they write for others, what they read of others."""
        total = 0.0
        for members in groups.groups():
            if self._node[members[0]].place is None:
                continue
            profile, inside = profile_of(self._node[members[0]].place, profiles), set(members)
            written = {m for m in members if not inside.issuperset(self._readers[m])}
            read = {p for m in members for p in self._node[m].inputs} - inside
            total += memory_us(profile, sum(self._node[p].result_bytes for p in (*written, *read)))
            if any(self._node[m].weight for m in members):
                total += saved_us(profile)
        return total

    def sides(self, groups: AcyclicContraction[str], crossing: Iterable[tuple[str, str]], profiles: Profiles
              ) -> Mapping[str, str]:
        """The region, by a node of it, that a node had better be part of; of nodes in the wrong one.

        Args:
            crossing: (node of a region, node of another one at the same place that needs it).
        """
        values: dict[tuple[str, str], set[str]] = {}
        for a, b in crossing:
            values.setdefault((groups.find(a), groups.find(b)), set()).add(a)
        found: dict[str, str] = {}
        for (before, behind), read in values.items():
            profile = profile_of(self._node[before].place, profiles)
            if 2 * memory_us(profile, sum(self._node[p].result_bytes for p in read)) < profile.choices.seam_us:
                continue
            moved, saved = self._moved(frozenset(groups.members(before)) - found.keys(),
                                       frozenset(groups.members(behind)))
            if memory_us(profile, saved) >= profile.choices.seam_us:
                found.update(dict.fromkeys(moved, behind))
        return found

    def _moved(self, before: frozenset[str], behind: frozenset[str]) -> tuple[set[str], int]:
        """Nodes of a region that had better run behind the seam, the fewest that save as much; and the bytes that they
        save. Edges of the cut's graph lead from what moves to what stays, and cost what that costs."""
        movable = self._movable(before, behind)
        end: dict[str, str | int] = {n: n if n in movable else _BEFORE for n in before}
        end.update(dict.fromkeys(behind, _BEHIND))
        cut = nx.DiGraph()
        cut.add_nodes_from((_BEHIND, _BEFORE))
        cut.add_edges_from((n, end[r]) for n in movable for r in self._readers[n])  # nobody who stays reads who moves
        now = 0
        for p in dict.fromkeys(p for m in movable for p in (m, *self._node[m].inputs)):
            nbytes, readers = self._node[p].result_bytes, {end[r] for r in self._readers[p] if r in end}
            if p in before:
                live_out = any(r not in end for r in self._readers[p])
                cost, stays = (nbytes if live_out else 2 * nbytes), end[p]  # written for others in any case, or not
            else:
                cost, stays = nbytes, _BEFORE
                cut.add_edge(_BEHIND, (p, "read before"), capacity=nbytes)
                cut.add_edges_from(((p, "read before"), r) for r in readers)
                now += nbytes
            cut.add_edges_from((r, (p, "read behind")) for r in readers)
            cut.add_edge((p, "read behind"), stays, capacity=cost)
            now += cost if _BEHIND in readers else 0
        best, (_, moved) = nx.minimum_cut(cut.reverse(), _BEFORE, _BEHIND)  # the side of the end is the smallest
        return movable & moved, now - best

    def _movable(self, before: frozenset[str], behind: frozenset[str]) -> set[str]:
        """Nodes that nothing waits for but what is behind the seam, or may be; of known sizes."""
        found: set[str] = set()
        for name in sorted(before, key=self._order.__getitem__, reverse=True):
            node, followers = self._node[name], self._followers[name]
            known = all(self._node[n].result_bytes for n in (name, *node.inputs))
            if followers and known and not node.sink and all(f in found or f in behind for f in followers):
                found.add(name)
        return found
