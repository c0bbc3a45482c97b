"""Sizes of two names that are assumed equal: those that are broadcast to each other.

The batch of a model's source sentences and that of its target sentences come from two feeds. Where both meet in an
elementwise op or in a matmul of batches they are equal, or one of them is 1, which is not known before the graph runs.
They are assumed equal. A region that depends on that reads, for their shapes, a tensor of each, so that it is not
built for others: its own nodes run then. What is in no region never depends on it, nor do branches and loops, where
such tensors are not at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, producer_of
from tf_stitch.frontend.tensorflow.loop_shapes import ARGUMENTS
from tf_stitch.frontend.tensorflow.size_names import broadcasts, mostly, parts
from tf_stitch.graph.clustering.region_graph import Assumption
from tf_stitch.graph.shapes.argument_sizes import outer_nodes, sources
from tf_stitch.graph.state import GraphState
from tf_stitch.ir.types import Symbol

FEEDS = (*ARGUMENTS, "IteratorGetNext", "IteratorGetNextSync", "OptionalGetValue", "TensorListGetItem")
"""What sizes come from that nothing in the graph decides. A list is a feed in the body of a loop that is rewritten by
itself: there the rows of a step come out of one, and meet the state, an argument."""
FIRST_NAME = 1_000_000
"""A common name is a symbol of TensorFlow's kind, with a number that no graph has."""


@dataclass(frozen=True)
class EqualSizes:
    """
    Attributes:
        names: size -> the common name of those that are assumed equal.
        witnesses: tensors that have these sizes, and wait for no region.
    """

    names: Mapping[Symbol, Symbol] = field(default_factory=dict)
    witnesses: tuple[str, ...] = ()


def equal_sizes(imported: ImportedGraph, outside: set[str], tensors: Mapping[Symbol, str]) -> EqualSizes:
    """The equal sizes of a graph that was imported without such assumptions.

    Args:
        outside: nodes of no branch or loop.
        tensors: size -> a tensor that has it, and waits for no region.
    """
    group: dict[Symbol, set[Symbol]] = {}
    for name in outside:
        for value in imported.nodes[name].outputs:
            for met in (parts(one) for d in (() if value is None else value.type.shape) for one in broadcasts(d)):
                known = {s for s in met if s in tensors and s.name not in imported.data_sizes}
                merged = set().union(known, *(group.get(s, ()) for s in known))
                group |= dict.fromkeys(merged, merged)
    groups = {min(s.name for s in sizes): sizes for sizes in group.values() if len(sizes) > 1}
    names = {size: Symbol(f"s{FIRST_NAME + i}") for i, key in enumerate(sorted(groups)) for size in groups[key]}
    witnesses = tuple(tensors[size] for size in sorted(names, key=str))
    for size, base in [(size, mostly(size)) for size in names]:
        if size != base and base in names:  # what it is called once its base has the common name
            names[Symbol(size.name.replace(base.name, names[base].name, 1))] = names[size]
    return EqualSizes(names, tuple(dict.fromkeys(witnesses)))


def assume_equal_dimensions(state: GraphState) -> GraphState:
    """The state with dimensions assumed equal that are broadcast to each other; the same state if there are none."""
    outside = outer_nodes(state.graph_def, state.imported)
    found = sources(state.imported, state.types_of, outside)
    fed = {size for size, s in found.items() if state.imported.nodes[producer_of(s.tensor)].op in FEEDS}
    equal = equal_sizes(state.imported, outside, {size: s.tensor for size, s in found.items() if mostly(size) in fed})
    if not equal.names:
        return state
    return replace(state, equal=equal.names, assumption=Assumption(equal.witnesses, state.imported))
