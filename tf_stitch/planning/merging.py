"""Patterns by merging neighbours while one kernel is predicted to beat two.

A third source beside the paper's two. Substitution gives segments of one topological order, exploration a few
neighbourhoods; merging follows the gain over the whole part in nearly linear time, takes in users of one value that do
not depend on each other, and leaves a ladder of sets of every size for the integer program to choose from.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.planning.acyclic_contraction import AcyclicContraction
from tf_stitch.planning.dependence import Edge
from tf_stitch.planning.part import Part

ALL_PAIRS = 8
"""Users of a value up to which every pair of them is tried."""


@dataclass(frozen=True)
class MergeOptions:
    """How hard to try.

    Attributes:
        thorough: from the inputs on and from the outputs back, and neighbours twice; else once from the inputs on.
        size: most nodes of a pattern.
    """

    thorough: bool = True
    size: int = 1 << 10


def merged_patterns(part: Part, options: MergeOptions) -> list[int]:
    """Sets of two nodes or more that can be one kernel; every intermediate set is a candidate."""
    found: dict[int, None] = {}
    siblings, summed = _siblings(part), _summed_alone(part)
    for edges in (part.edges, part.edges[::-1]) if options.thorough else (part.edges,):
        groups = AcyclicContraction(range(len(part.nodes)), part.edges)
        masks = [1 << i for i in range(len(part.nodes))]
        for pairs in (summed, edges, siblings, edges) if options.thorough else (summed, edges, siblings):
            for a, b in pairs:
                _try_merge(part, groups, masks, a, b, options.size, found)
    return list(found)


def _try_merge(part: Part, groups: AcyclicContraction[int], masks: list[int], a: int, b: int, size: int,
               found: dict[int, None]) -> None:
    left, right = groups.find(a), groups.find(b)
    if left == right:
        return
    union = masks[left] | masks[right]
    if union.bit_count() > size:
        return
    parts = part.time(masks[left]), part.time(masks[right])
    whole = part.time(union)
    if whole is None or None in parts or whole >= sum(t for t in parts if t is not None):
        return
    if groups.merge(a, b):
        masks[groups.find(a)] = union
        found[union] = None


def _summed_alone(part: Part) -> list[Edge]:
    """Multiplications whose results are larger than what the part makes them of, with the sums that alone read them, as
    in a matmul that is a sum: whoever took one without its sum would have to write that."""
    inside = set(part.nodes)

    def is_larger(node: Node) -> bool:
        """Than each of its operands, but what lies in memory, perhaps in another type."""
        made = [o for o in node.operands if o in inside and (o.kind is not OpKind.CAST or o.operands[0] in inside)]
        return bool(made) and all(o.type.numel < node.type.numel for o in made)

    return [(a, b) for a, b in part.edges if part.nodes[b].kind is OpKind.SUM and part.nodes[a].kind is OpKind.MUL
            and part.facts.users[part.nodes[a]] == [part.nodes[b]] and is_larger(part.nodes[a])]


def _siblings(part: Part) -> list[Edge]:
    """Users of one value, produced here or outside: all pairs where they are few, else neighbours. Scatters, which
    share a launch and its barrier."""
    pairs: dict[Edge, None] = {}
    consumers: dict[Node, list[int]] = {}
    for i, node in enumerate(part.nodes):
        for operand in dict.fromkeys(node.operands):
            if operand not in part.facts.free and operand.type.numel > 1:
                consumers.setdefault(operand, []).append(i)
    for users in consumers.values():
        for a, b in itertools.combinations(users, 2) if len(users) <= ALL_PAIRS else itertools.pairwise(users):
            pairs[a, b] = None
    scatters = (i for i, node in enumerate(part.nodes) if node.category is Category.SCATTER)
    return list(pairs | dict.fromkeys(itertools.pairwise(scatters)))
