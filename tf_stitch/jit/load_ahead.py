"""Loads what a GPU runs before it runs it: modules of kernels, and calls that libraries choose kernels for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tf_stitch.ir.graph import key_of
from tf_stitch.jit.placed_region import PlacedRegion
from tf_stitch.jit.region_builder import Built
from tf_stitch.jit.shape_family import Shapes

LoadAhead = Callable[[int, Sequence[int], Sequence[int], Sequence[int], Sequence[int]], object]
"""As native.bindings.OpLibrary has it."""


def load(place: PlacedRegion, shapes: Shapes, built: Built, load_ahead: LoadAhead) -> None:
    """Loads a region's executable for shapes. If that cannot be done the region's run meets it, too, and says why."""
    sizes = {key_of(node): int(node.type.nbytes) for node in place.bound(shapes).inputs()}
    inputs, variables = ([sizes[key] for key in keys] for keys in place.arguments())
    load_ahead(place.device, built.words, inputs, variables, [output.dtype.size for output in built.executable.outputs])
