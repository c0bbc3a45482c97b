"""Exploratory fusion (FusionStitching section 4.2.2, Algorithm 2): a seed takes in its producers and consumers one by
one, in search of the pattern that moves the fewest bytes.

The paper explores depth first. Here the set that saves most bytes is expanded next, so that a budget that runs out
has been spent on the best sets.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category
from tf_stitch.planning.matmul_sizes import is_small_matmul
from tf_stitch.planning.part import Part, bits, mask_of


@dataclass(frozen=True)
class ExploreOptions:
    """Limits of the search.

    Attributes:
        operands: an op with more is left out.
        size: most nodes of a pattern.
        seeds: of a part; those that move the most bytes, and `large` bytes at least.
        budget: sets looked at for one seed; then the search gives up.
    """

    operands: int = 10
    size: int = 64
    seeds: int = 4
    large: int = 1 << 20
    budget: int = 32


def explore(part: Part, options: ExploreOptions) -> list[int]:
    """Convex sets of two nodes or more that a kernel family takes, in the order in which they were found."""
    fusible = mask_of(i for i, n in enumerate(part.nodes) if _fusible(n, options))
    seeds = sorted(bits(fusible), key=lambda i: (-part.traffic(1 << i), i))
    found: dict[int, None] = {}
    covered = 0
    taken = 0
    for seed in seeds:
        if taken == options.seeds or part.traffic(1 << seed) < options.large:
            break
        if not covered >> seed & 1:  # a pattern grown from an earlier seed has been here
            taken += 1
            grown = _explore_from(part, seed, fusible, options)
            found.update(dict.fromkeys(grown))
            covered |= max(grown, key=lambda mask: (mask.bit_count(), mask), default=0)
    return list(found)


def _explore_from(part: Part, seed: int, fusible: int, options: ExploreOptions) -> list[int]:
    found: list[int] = []
    start = 1 << seed
    queue, seen = [(0, 0, start)], {start}
    looked = 0
    while queue and looked < options.budget:
        mask = heapq.heappop(queue)[2]
        looked += 1
        if mask != start and part.estimate(mask) is not None:
            found.append(mask)
        if mask.bit_count() == options.size:
            continue
        hull = part.hull(mask)
        for neighbour in bits(part.neighbours(mask) & fusible):
            larger = mask | 1 << neighbour
            if larger not in seen and hull.takes(neighbour):
                seen.add(larger)
                heapq.heappush(queue, (part.traffic(larger) - part.separate(larger), len(seen), larger))
    return found


def _fusible(node: Node, options: ExploreOptions) -> bool:
    kinds = (Category.ELEMENTWISE, Category.MOVEMENT, Category.REDUCTION, Category.SCATTER)
    return len(node.operands) <= options.operands and (node.category in kinds or is_small_matmul(node))
