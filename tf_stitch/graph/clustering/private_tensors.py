"""Tensors that TensorFlow's ops hand to each other and the IR has no value for, as what cuDNN keeps for the gradient of
a batch norm. A region holds both ops or neither: no kernel makes such a tensor, and no region takes one in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, canonical_tensor, producer_of

SPLIT_ACROSS_REGIONS = "a tensor that the IR has no value for leads to an op of another region, or of none"


def private_edges(imported: ImportedGraph) -> list[tuple[str, str]]:
    """(op that makes such a tensor, op that reads it) where one of them could be part of a region."""
    return list(dict.fromkeys((producer_of(tensor), node.name) for node in imported.nodes.values()
                              for tensor in _private(imported, node.name)))


def _private(imported: ImportedGraph, name: str) -> Iterator[str]:
    node = imported.nodes[name]
    yield from node.private
    for tensor in map(canonical_tensor, node.inputs):
        producer = imported.nodes[producer_of(tensor)]
        if producer.reason is None and producer.outputs and imported.value(tensor) is None:
            yield tensor


def split_across_regions(regions: Iterable[Sequence[str]], edges: Sequence[tuple[str, str]]) -> set[str]:
    """Members of regions at private edges whose ends are not in one region."""
    region_of = {name: i for i, members in enumerate(regions) for name in members}
    return {name for edge in edges for name in edge
            if name in region_of and region_of.get(edge[0]) != region_of.get(edge[1])}
