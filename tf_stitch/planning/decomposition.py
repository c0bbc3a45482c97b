"""Cuts a region into parts that are planned apart, so that planning grows with the region's size and no faster.

Three cuts, each of which leaves parts that no path can leave and come back to: levels (ir.levels), connected parts of a
level, and windows of a long part, cut where the fewest bytes cross. Parts are numbered in an order in which they could
run.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import networkx as nx

from tf_stitch.ir.graph import Node
from tf_stitch.ir.levels import Levels
from tf_stitch.libraries.call import Library
from tf_stitch.planning.dependence import Edge
from tf_stitch.planning.matmul_sizes import needs_library

WINDOW = 160
"""Most nodes of a part; the shortest window is half of it."""


def decompose(work: Sequence[Node], needs: Sequence[Sequence[int]], free: frozenset[Node], levels: Levels,
              libraries: Sequence[Library]) -> list[list[int]]:
    """Positions of each part, ascending. A node that needs a library call is a part of its own.

    Args:
        needs: for each node of `work` the positions it depends on.
        levels: of the region's nodes.
        libraries: whose calls compute large matmuls.
    """
    level = [levels.of[node] for node in work]
    parts: list[tuple[int, list[int]]] = []
    for positions in _connected(work, needs, level, free, libraries):
        parts += [(level[positions[0]], window) for window in _windows(work, needs, positions)]
    return [part for _, part in sorted(parts)]


def _connected(work: Sequence[Node], needs: Sequence[Sequence[int]], level: Sequence[int],
               free: frozenset[Node], libraries: Sequence[Library]) -> list[list[int]]:
    """Positions of one level connected by values, or by reading the same tensor."""
    connected = nx.utils.UnionFind(range(len(work)))
    readers: dict[tuple[Node, int], int] = {}
    for i, node in enumerate(work):
        if needs_library(node, libraries):
            continue
        for j in needs[i]:
            if level[j] == level[i] and not needs_library(work[j], libraries):
                connected.union(j, i)
        for operand in node.operands:
            if operand not in free and operand.type.numel > 1:
                connected.union(readers.setdefault((operand, level[i]), i), i)
    return [sorted(part) for part in connected.to_sets()]


def _windows(work: Sequence[Node], needs: Sequence[Sequence[int]], positions: list[int]) -> list[list[int]]:
    """Stretches of `positions` of half a WINDOW to a WINDOW. Cutting where few bytes cross also cuts equal layers at
    equal places, so that they are planned once."""
    if len(positions) <= WINDOW:
        return [positions]
    crossing = _bytes_across(work, needs, positions)
    windows: list[list[int]] = []
    start = 0
    while len(positions) - start > WINDOW:
        cut = min(range(start + WINDOW // 2, start + WINDOW + 1), key=lambda i: (crossing[i], -i))
        windows.append(positions[start:cut])
        start = cut
    return [*windows, positions[start:]]


def _bytes_across(work: Sequence[Node], needs: Sequence[Sequence[int]], positions: list[int]) -> list[int]:
    """Bytes of values made before and used after each gap: gap i is before positions[i]."""
    place = {p: i for i, p in enumerate(positions)}
    last = list(range(len(positions)))
    for i, p in enumerate(positions):
        for j in needs[p]:
            if j in place:
                last[place[j]] = max(last[place[j]], i)
    change = [0] * (len(positions) + 1)
    for i, p in enumerate(positions):
        change[min(i + 1, len(positions))] += work[p].type.nbytes
        change[min(last[i] + 1, len(positions))] -= work[p].type.nbytes
    return list(accumulate(change))


def inner_edges(part: Sequence[int], needs: Sequence[Sequence[int]], wishes: Sequence[Edge]) -> list[Edge]:
    """Edges between places of a part: its data, and those wishes that agree with the order of its nodes."""
    place = {p: i for i, p in enumerate(part)}
    edges = dict.fromkeys((place[j], i) for i, p in enumerate(part) for j in needs[p] if j in place)
    edges.update(dict.fromkeys((place[a], place[b]) for a, b in wishes if a < b))
    return list(edges)
