"""Sizes of a region that none of its inputs has: its graph finds them out by how many elements a tensor has. The
region's TensorFlow nodes cannot, since what they read the size from is not at hand; of an empty tensor nobody can."""

from __future__ import annotations

from collections.abc import Iterator

from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph
from tf_stitch.frontend.tensorflow.loop_shapes import ARGUMENTS
from tf_stitch.frontend.tensorflow.size_names import parts
from tf_stitch.graph.clustering.region_graph import RegionGraph
from tf_stitch.ir.types import Symbol


def arguments_that_show(imported: ImportedGraph, region: RegionGraph, device: str) -> tuple[str, ...]:
    """Arguments of the graph, tensors of real numbers on the region's device, that have the sizes which no input has.
    They wait for nothing."""
    told = {size for shape in region.argument_shapes for size in shape}
    hidden = {part for node in region.graph.nodes() for size in node.type.shape if size not in told
              for part in parts(size)} - told
    found: dict[Symbol, str] = {}
    for size, tensor in _sizes_of_arguments(imported, device):
        if size in hidden:
            found.setdefault(size, tensor)
    return tuple(dict.fromkeys(found.values()))


def _sizes_of_arguments(imported: ImportedGraph, device: str) -> Iterator[tuple[Symbol, str]]:
    for node in imported.nodes.values():
        if node.op in ARGUMENTS and node.device == device:
            for number, value in enumerate(node.outputs):
                if value is not None and value.type.dtype.is_float:
                    yield from ((d, f"{node.name}:{number}") for d in value.type.shape if isinstance(d, Symbol))
