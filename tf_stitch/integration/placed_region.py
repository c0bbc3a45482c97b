"""A region on a device, bound to shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import BindError
from tf_stitch.integration.collector import collector_paused
from tf_stitch.integration.region_graph import RegionGraph
from tf_stitch.integration.shape_family import Shapes
from tf_stitch.ir.bind import bind, symbol_sizes
from tf_stitch.ir.changing_sizes import Relations, bind_changing
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.types import static_shape, substitute
from tf_stitch.ir.vector_sizes import VECTOR
from tf_stitch.pipeline import CompiledRegion, CompileOptions, compile_region, plan_and_place
from tf_stitch.runtime.buffer_plan import BufferPlan

UNEQUAL = "sizes differ that are broadcast to each other, and were taken to be equal"


def multiple(device: DeviceSpec) -> int:
    """What kernels for sizes that change are made for multiples of."""
    return VECTOR if device.is_gpu else 1


@dataclass(frozen=True)
class PlacedRegion:
    """A region on a device.

    Attributes:
        number: names the region in its op.
        aligned: every buffer starts at a multiple of 16 bytes.
        patterns: how many patterns of more than one node are kept; None: all.
        tf32: products of float32 may be taken in TF32.
    """

    number: int
    region: RegionGraph
    device: int
    aligned: bool
    patterns: int | None = None
    tf32: bool = False

    def arguments(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the region's inputs and variables."""
        return self.region.input_keys, self.region.variable_keys

    def by_name(self, shapes: Sequence[Sequence[int]]) -> dict[str, Sequence[int]]:
        inputs, variables = self.arguments()
        return dict(zip((*inputs, *variables), shapes, strict=True))

    def sizes(self, shapes: Shapes) -> dict[str, int]:
        """Sizes of the region's symbols that the shapes decide.

        Raises:
            BindError: the shapes contradict the region.
        """
        return symbol_sizes(self.region.graph, self.by_name(shapes))

    @collector_paused()
    def bound(self, shapes: Sequence[Sequence[int]]) -> TensorGraph:
        """The region with its symbols replaced by what the shapes of its inputs and variables say.

        Raises:
            BindError: the shapes contradict the region.
        """
        if self.region.assumes:
            try:
                symbol_sizes(self.region.graph, self.by_name(shapes))
            except BindError:
                raise BindError(UNEQUAL) from None  # whatever they are: it is said once
        return bind(self.region.graph, self.by_name(shapes))

    def shapes(self, sizes: Mapping[str, int]) -> Shapes:
        """Shapes of inputs and variables for sizes of the region's symbols."""
        return tuple(static_shape(substitute(shape, dict(sizes))) for shape in self.region.argument_shapes)

    @collector_paused()
    def compiled_for_sizes(self, shapes: Shapes, changing: frozenset[str], relations: Relations,
                           options: CompileOptions) -> CompiledRegion:
        """The region with its changing sizes as arguments of the kernels.

        Raises:
            StitchError: it cannot be compiled so.
        """
        graph = bind_changing(self.region.graph, self.by_name(shapes), changing, multiple(options.device), relations)
        return compile_region(graph, *self.arguments(), options)

    @collector_paused()
    def placed_for_sizes(self, shapes: Shapes, changing: frozenset[str], relations: Relations,
                         options: CompileOptions) -> BufferPlan:
        """As compiled_for_sizes, but kernels are not emitted."""
        graph = bind_changing(self.region.graph, self.by_name(shapes), changing, multiple(options.device), relations)
        return plan_and_place(graph, *self.arguments(), options)[1]
