"""Random graphs and made-up times for planner tests."""

from __future__ import annotations

import random
import zlib

from tests.differential.generator import make_case
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.ir.text_format import structural_key
from tf_stitch.planning.dependence import Edge
from tf_stitch.planning.part import Part, PatternTimes, RegionFacts
from tf_stitch.planning.pattern import Pattern

B = Builder()


def random_graph(seed: int, steps: int = 14) -> TensorGraph:
    """A random region graph that depends on the seed alone."""
    return make_case(random.Random(seed), steps, 300).graph


def random_nodes(rng: random.Random, count: int, reach: int = 8) -> list[Node]:
    """Binary ops, each on the results of some of the `reach` before it or on inputs."""
    nodes: list[Node] = []
    for i in range(count):
        size = rng.choice((4, 64, 1024))
        sources = [n for n in nodes[-reach:] if n.type.shape == (size,)] + [B.input(f"x{i}", DType.F32, (size,))]
        nodes.append(B.add(rng.choice(sources), rng.choice(sources)))
    return nodes


class MadeUpTimes:
    """Times that depend on a pattern's structure alone: launch and bytes, and some noise; some patterns have none.

    Args:
        off: how far estimates are from exact times, as a factor.
    """

    def __init__(self, off: float = 1.3, launch: float = 2.0) -> None:
        self._off, self._launch = off, launch
        self.least_us = launch * min(1.0, off)
        self.profile = H200.profile
        self.exact_calls = 0

    def exact(self, pattern: Pattern) -> float | None:
        self.exact_calls += 1
        noise = zlib.crc32(structural_key(pattern.nodes, pattern.outputs).encode()) % 1000 / 1000
        if len(pattern.nodes) > 1 and noise < 0.15:
            return None
        moved = sum(n.type.nbytes for n in (*pattern.reads(), *pattern.outputs))
        return self._launch + moved / 1000 + noise * 0.3 * len(pattern.nodes)

    def estimate(self, pattern: Pattern) -> float | None:
        if len(pattern.nodes) > 12:
            return None
        moved = sum(n.type.nbytes for n in (*pattern.reads(), *pattern.outputs))
        return self._off * (self._launch + moved / 1000)


def part_of(nodes: list[Node], times: PatternTimes, extra: tuple[Edge, ...] = ()) -> Part:
    """A part of all `nodes`; those without users are wanted. `extra` edges are control edges."""
    position = {n: i for i, n in enumerate(nodes)}
    users = users_of(nodes)
    edges = [(position[o], i) for i, n in enumerate(nodes) for o in dict.fromkeys(n.operands) if o in position]
    facts = RegionFacts(users, frozenset(n for n in nodes if not users[n]), frozenset(), ())
    return Part(nodes, list(dict.fromkeys([*edges, *extra])), facts, times)


def closure(part: Part, mask: int) -> int:
    """The smallest convex set that holds `mask`: with all nodes on paths between its nodes."""
    hull = part.hull(mask)
    return mask | (hull.above & hull.below)


def is_convex(part: Part, mask: int) -> bool:
    return closure(part, mask) == mask
