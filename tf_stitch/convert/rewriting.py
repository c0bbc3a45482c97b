"""Regions in a function of a SavedModel, and the function with a node in the place of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.config import StitchConfig
from tf_stitch.convert.functions import Body, back_to_function
from tf_stitch.device.profile import DeviceProfile
from tf_stitch.errors import GraphLeftAloneError, StitchError
from tf_stitch.frontend.tensorflow.memory_types import has_gpu_kernel
from tf_stitch.graph.clustering.controls import Controls
from tf_stitch.graph.clustering.region_graph import RegionGraph
from tf_stitch.graph.clustering.stitch_node import stitch_node
from tf_stitch.graph.finish.validation import validate_graph
from tf_stitch.graph.pipeline import FoundRegions, GraphOptions, find_regions
from tf_stitch.graph.state import GraphState
from tf_stitch.jit.libraries import scope_of

NO_OWN_NODES = "its region's TensorFlow nodes cannot be kept beside its kernels, for shapes without kernels"
NEVER_RAN = "its region ran with no input: a branch that none took; --samples may have one that does"
OUTSIDE = "no signature computes it"
GIVEN_UP = "its region is slower than the TensorFlow nodes that it replaces"
UNOPTIMIZED = "_tf_stitch_unoptimized"
"""Of a region's own nodes: TensorFlow has not optimized them, as it does the original's (op/fallback_function.h)."""


@dataclass(frozen=True)
class Place:
    """Where a region's kernels come from.

    Attributes:
        number: of the region.
        module: digest of the module that has its kernels; "": Python is asked.
    """

    number: int
    module: str = ""


@dataclass
class Rewriting:
    """A function whose regions are known.

    Attributes:
        regions: that can be replaced; their places here name them.
        fallbacks: each region's fallback subgraph, a serialized FunctionDef.
        left_out: node -> why it stays TensorFlow's.
        given_up: places of regions that are not replaced after all.
    """

    body: Body
    device: str
    found: FoundRegions | None
    regions: list[RegionGraph]
    fallbacks: list[bytes]
    left_out: dict[str, str]
    given_up: set[int] = field(default_factory=set)

    def give_up(self, place: int, reason: str = GIVEN_UP) -> None:
        """Leaves a region to TensorFlow."""
        self.given_up.add(place)
        self.left_out |= dict.fromkeys(self.regions[place].members, reason)

    @property
    def taken(self) -> list[int]:
        """Places of the regions that are replaced."""
        return [i for i in range(len(self.regions)) if i not in self.given_up]

    def graph(self, place_of: Callable[[int], Place]) -> GraphDef:
        """The graph with a node in the place of each region.

        Args:
            place_of: by the region's place in `regions`.

        Raises:
            VerifyError: the graph makes no sense: a bug.
        """
        found = self.found
        if found is None or not self.taken:
            return self.body.graph_def
        place = {id(region): i for i, region in enumerate(self.regions)}

        def make_node(region: RegionGraph, device: str, controls: Sequence[str]) -> NodeDef:
            i = place[id(region)]
            where = place_of(i)
            node = stitch_node(f"tf_stitch_{where.number}/{region.members[-1]}", region, where.number, device, controls)
            node.attr["module"].s = where.module.encode()
            node.attr["original"].s = self.fallbacks[i]
            return node

        found.regions.regions[:] = [self.regions[i] for i in self.taken]
        before = found.state.graph_def
        after = found.replaced(make_node)
        validate_graph(before, after, self.body.preserved)
        devices = {node.name: node.device for node in self.body.graph_def.node}
        for node in after.node:
            node.device = devices.get(node.name, "")
        return after

    def function(self, place_of: Callable[[int], Place]) -> FunctionDef:
        """As `graph`, of a function."""
        assert self.body.source is not None
        return back_to_function(self.body, self.graph(place_of)) if self.taken else self.body.source


def rewriting_of(body: Body, config: StitchConfig, device: str, profile: DeviceProfile) -> Rewriting:
    """Finds the regions of a function.

    Args:
        device: "CPU" or "GPU", for which regions are formed.
    """
    controls = Controls(config)
    options = GraphOptions.by(config, device, True, {device: profile}, controls)
    clusters = replace(options.clusters, why_not=lambda name: OUTSIDE if name in body.outside else
                       controls.why_not(name))
    options = replace(options, clusters=clusters, loops_as_ops=False, unroll=False, fold=False)
    state = GraphState(_placed(body.graph_def, device), body.types_of, body.preserved, scope_of(config.scope),
                       device_type=device)
    try:
        found = find_regions(state, options)
    except (GraphLeftAloneError, StitchError) as error:
        return Rewriting(body, device, None, [], [], dict.fromkeys((n.name for n in body.graph_def.node),
                                                                   error.message))
    regions, fallbacks, left_out = [], [], dict(found.regions.left_out)
    for region in found.regions.regions:
        own = found.fallback(region)
        try:
            function = own.function("tf_stitch_own_nodes") if own is not None else None
        except StitchError:
            function = None
        if function is None:
            left_out |= dict.fromkeys(region.members, NO_OWN_NODES)
        else:
            function.attr[UNOPTIMIZED].b = True
            regions.append(region)
            fallbacks.append(function.SerializeToString(deterministic=True))
    return Rewriting(body, device, found, regions, fallbacks, left_out)


def _placed(graph_def: GraphDef, device: str) -> GraphDef:
    """The graph with every node where TensorFlow would put it."""
    placed = GraphDef()
    placed.CopyFrom(graph_def)
    for node in placed.node:
        on_gpu = device == "GPU" and (node.op in ("_Arg", "_Retval") or has_gpu_kernel(node))
        node.device = f"/device:{'GPU' if on_gpu else 'CPU'}:0"
    return placed
