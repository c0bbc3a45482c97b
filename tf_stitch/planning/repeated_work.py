"""How often a pattern's kernel computes the elements of a node: once for each place that they are read from."""

from __future__ import annotations

from collections.abc import Mapping

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.planning.pattern import Pattern

_MOVED = (OpKind.SLICE, OpKind.PAD, OpKind.CONCAT, OpKind.TRANSPOSE)
MOST_PLACES = 256
"""Told apart for a node: a chain of n sums of a value and the same value moved reads its beginning from 2^n."""


def repetitions(pattern: Pattern) -> Mapping[Node, float]:
    """For the pattern's nodes and what they read, how often a kernel computes or reads each element, on the average;
    once what is not there.

    A kernel that reads a value and the same value moved along computes both, with all that either is made of, so that
    numbers multiply along a chain of such nodes: scans in log n steps, differences of differences. Disjoint slices of a
    value repeat nothing.
    """
    if not any(node.kind in _MOVED for node in pattern.nodes):
        return {}
    # Elements of a node by the movements between them and the kernel's own elements, as a hash.
    elements: dict[Node, dict[int, int]] = {node: {0: node.type.numel} for node in pattern.outputs}
    for node in reversed(pattern.nodes):
        wanted = elements.setdefault(node, {0: node.type.numel})
        for number, operand in enumerate(node.operands):
            its, size = elements.setdefault(operand, {}), operand.type.numel
            for place, count in wanted.items():
                if len(its) == MOST_PLACES:
                    break
                if node.kind in _MOVED:
                    place = hash((place, node.kind, node.attrs, number))
                count = size if node.category is Category.REDUCTION else min(size, count)
                its[place] = max(its.get(place, 0), count)
    return {node: many for node, its in elements.items() if (many := sum(its.values()) / max(node.type.numel, 1)) > 1}
