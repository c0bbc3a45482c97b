"""Sizes that vector accesses depend on. Each that may or may not be a multiple of a vector doubles the kernels that a
program needs, so few are asked for: the lengths of rows. A batch of odd rows is read element by element."""

from __future__ import annotations

import math

from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.symbolic_dims import SymbolicDim, dimensions_of, divides

VECTOR = 4
"""Elements of a vector access on a GPU."""


def dimensions_of_vectors(graph: TensorGraph) -> frozenset[str]:
    """Names of the dimensions that have to be multiples of a vector for tensors to be whole vectors.

    Args:
        graph: bound to sizes none of which is known to be a multiple.
    """
    shapes = {tuple(d for d in node.type.dims if d != 1) for node in graph.nodes()}
    of_rows = {name for dims in shapes for d in dims[:-1] for name in dimensions_of(d)}
    # A number for each row is little beside the rows.
    tensors = [dims for dims in shapes if len(dims) > 1 or any(not of_rows.issuperset(dimensions_of(d)) for d in dims)]
    found = {name for *_, last in tensors if len(names := dimensions_of(last)) == 1 for name in names}
    others = set[str]()
    for dims in tensors:
        count = dims[-1] if isinstance(dims[-1], SymbolicDim) else math.prod(dims)
        if not divides(VECTOR, count) and found.isdisjoint(dimensions_of(count)):
            others.update(dimensions_of(count))
    return frozenset(found | others)
