"""A region on a device, bound to shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import CompiledRegion, compile_plan, compile_region, planned_kernels
from tf_stitch.compiler.symbolic_plans import Decisions
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import BindError, EmptyTensorError
from tf_stitch.graph.clustering.region_graph import RegionGraph
from tf_stitch.ir.bind import bind, symbol_sizes
from tf_stitch.ir.dynamic_dims import atom_values, bind_changing, related_symbols
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.types import static_shape, substitute
from tf_stitch.ir.vector_sizes import VECTOR
from tf_stitch.jit.collector import collector_paused
from tf_stitch.jit.shape_family import Change, Shapes, with_parts
from tf_stitch.placement.buffer_plan import BufferPlan
from tf_stitch.planning.stitch_plan import StitchPlan

UNEQUAL = "dimensions differ that are broadcast to each other, and were assumed equal"


def multiple(device: DeviceSpec) -> int:
    """What kernels for sizes that change are made for multiples of."""
    return VECTOR if device.vector_accesses else 1


@dataclass(frozen=True)
class PlacedRegion:
    """A region on a device.

    Attributes:
        number: names the region in its op.
        aligned: every buffer starts at a multiple of 16 bytes.
        patterns: how many patterns of more than one node are kept; None: all.
        tf32: matmuls of float32 may be taken in TF32.
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

    def sizes(self, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
        """Sizes of the region's symbols that the shapes decide.

        Raises:
            BindError: the shapes contradict the region.
        """
        try:
            return symbol_sizes(self.region.graph, self.by_name(shapes))
        except BindError:
            if self.region.assumes:
                raise BindError(UNEQUAL) from None  # whatever they are: it is said once
            raise

    @collector_paused()
    def bound(self, shapes: Sequence[Sequence[int]]) -> TensorGraph:
        """The region with its symbols replaced by what the shapes of its inputs and variables say.

        Raises:
            BindError: the shapes contradict the region.
        """
        self.sizes(shapes)
        return bind(self.region.graph, self.by_name(shapes))

    def without_empty_tensors(self, shapes: Shapes) -> TensorGraph:
        """As bound.

        Raises:
            EmptyTensorError: it has a tensor without elements, or what it does with one has no meaning.
            BindError: the shapes contradict the region.
        """
        try:
            graph = self.bound(shapes)
        except BindError as error:  # as a gather from no rows
            if any(0 in shape for shape in shapes):
                raise EmptyTensorError(error.loc) from error
            raise
        for node in graph.nodes():
            if node.type.numel == 0:
                raise EmptyTensorError(node.loc)
        return graph

    def shapes(self, sizes: Mapping[str, int]) -> Shapes:
        """Shapes of inputs and variables for sizes of the region's symbols."""
        return tuple(static_shape(substitute(shape, dict(sizes))) for shape in self.region.argument_shapes)

    @collector_paused()
    def compiled_for_sizes(self, shapes: Shapes, change: Change, options: CompileOptions) -> CompiledRegion:
        """The region with its changing sizes as arguments of the kernels.

        Raises:
            StitchError: it cannot be compiled so.
        """
        compiled = compile_region(self._bound_for_sizes(shapes, change, options), *self.arguments(), options)
        self._keep(compiled.plan, shapes, change, options)
        return compiled

    @collector_paused()
    def compiled_as_before(self, shapes: Shapes, change: Change, options: CompileOptions) -> CompiledRegion | None:
        """As compiled_for_sizes, where sizes like these have been compiled (see SizedPlans), in a third of the time.

        Raises:
            StitchError: it cannot be compiled so.
        """
        if change.decisions is None or change.relations.at(self.sizes(shapes), change.symbols) is None:
            return None
        sizes = self.sizes_and_parts(shapes, change)
        plan = change.plans.plan(change.decisions.at(sizes), atom_values(sizes, multiple(options.device)))
        return None if plan is None else compile_plan(plan, *self.arguments(), options)

    @collector_paused()
    def placed_for_sizes(self, shapes: Shapes, change: Change, options: CompileOptions) -> BufferPlan:
        """As compiled_for_sizes, but kernels are not emitted."""
        kernels = planned_kernels(self._bound_for_sizes(shapes, change, options), *self.arguments(), options)
        self._keep(kernels.plan, shapes, change, options)
        return kernels.buffers

    def sizes_and_parts(self, shapes: Shapes, change: Change) -> dict[str, int]:
        """As sizes, with those of parts that some are multiples of (see with_parts)."""
        related = related_symbols(self.region.graph, self.by_name(shapes), change.symbols, change.relations)
        return with_parts(self.sizes(shapes), related)

    def decisions(self, shapes: Shapes, change: Change, options: CompileOptions) -> Decisions:
        """What numbers decide where these sizes change."""
        if change.decisions is None:
            graph = bind_changing(self.region.graph, self.by_name(shapes), change.symbols, 1, change.relations)
            change.decisions = Decisions(graph, options, multiple(options.device))
        return change.decisions

    def _keep(self, plan: StitchPlan, shapes: Shapes, change: Change, options: CompileOptions) -> None:
        sizes = self.sizes_and_parts(shapes, change)
        change.plans.keep(self.decisions(shapes, change, options).at(sizes), sizes, plan)

    def _bound_for_sizes(self, shapes: Shapes, change: Change, options: CompileOptions) -> TensorGraph:
        return bind_changing(self.region.graph, self.by_name(shapes), change.symbols, multiple(options.device),
                             change.relations)
