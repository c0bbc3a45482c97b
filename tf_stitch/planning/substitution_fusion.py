"""Substitution fusion (FusionStitching section 4.2.1, Algorithm 1): all ops between two partition ops are one pattern;
partition ops grow from large matmuls alone to everything that is not element-wise."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import COLLECTED, Category, OpKind
from tf_stitch.ir.reductions import keeps_last_axis
from tf_stitch.planning.matmul_sizes import is_large_matmul
from tf_stitch.planning.part import Part, bits, mask_of


def is_matmul(node: Node) -> bool:
    return node.category is Category.CONTRACTION


def is_scalar_reduction(node: Node) -> bool:
    return node.category is Category.REDUCTION and node.type.numel == 1


def is_collected(node: Node) -> bool:
    return node.category in COLLECTED


def moves_contiguous_axis(node: Node) -> bool:
    return node.kind is OpKind.TRANSPOSE


GROWTH: tuple[Callable[[Node], bool], ...] = (is_large_matmul, is_matmul, keeps_last_axis, is_scalar_reduction,
                                              is_collected, moves_contiguous_axis)
"""What joins the partition ops, step by step. The paper's steps end with "etc."; the last two are ours: kernels of
element-wise ops alone, which every kernel family takes."""


def substitution_patterns(part: Part) -> list[int]:
    """Sets of two nodes or more, for every step of GROWTH: the ops between adjacent partition ops, and the connected
    parts of each such segment. Convex: a segment of a topological order has no path that leaves it and comes back."""
    found: dict[int, None] = {}
    first = [next((step for step, joins in enumerate(GROWTH) if joins(n)), len(GROWTH)) for n in part.nodes]
    for step in range(len(GROWTH)):
        for segment in _segments([joined <= step for joined in first]):
            for mask in (segment, *_connected(part, segment)):
                if mask.bit_count() > 1:
                    found[mask] = None
    return list(found)


def _segments(partition: list[bool]) -> Iterator[int]:
    start = 0
    for i, cuts in enumerate([*partition, True]):
        if cuts:
            yield mask_of(range(start, i))
            start = i + 1


def _connected(part: Part, mask: int) -> Iterator[int]:
    """The parts of `mask` that are connected by edges."""
    while mask:
        reached, fresh = 0, mask & -mask
        while fresh:
            reached |= fresh
            near = mask_of(j for i in bits(fresh) for j in (*part.before[i], *part.after[i]))
            fresh = near & mask & ~reached
        yield reached
        mask &= ~reached
