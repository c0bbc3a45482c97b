"""From TensorFlow's graph to a graph with regions: a table of contents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.config import StitchConfig
from tf_stitch.frontend.tensorflow.importer import device_type
from tf_stitch.graph.branches.update_orders import touching
from tf_stitch.graph.clustering.clusters import Clustering, ClusterOptions, Regions
from tf_stitch.graph.clustering.controls import Controls
from tf_stitch.graph.clustering.region_graph import RegionGraph
from tf_stitch.graph.clustering.region_replacement import MakeNode
from tf_stitch.graph.fallback.fallback_subgraph import FallbackSubgraph, fallback_subgraph
from tf_stitch.graph.finish.access_order import CheckAccessOrder
from tf_stitch.graph.finish.copy_between_gpus import CopyBetweenGpus
from tf_stitch.graph.finish.deliver_early import DeliverEarly
from tf_stitch.graph.finish.end_on_host import EndOnHost
from tf_stitch.graph.finish.hold_variables import HoldVariables
from tf_stitch.graph.finish.move_arguments import MoveArguments
from tf_stitch.graph.finish.put_back_loops import PutBackLoops
from tf_stitch.graph.finish.upload_inputs import UploadInputs
from tf_stitch.graph.passes.assume_equal_dimensions import AssumeEqualDimensions
from tf_stitch.graph.passes.branches_to_selects import BranchesToSelects
from tf_stitch.graph.passes.cut_feeds import CutFeeds
from tf_stitch.graph.passes.fold_loops import FoldLoops
from tf_stitch.graph.passes.loops_as_ops import LoopsAsOps
from tf_stitch.graph.passes.read_sizes_from_arguments import ReadSizesFromArguments
from tf_stitch.graph.passes.relax_constants import RelaxConstants
from tf_stitch.graph.passes.restore_sums import RestoreSums
from tf_stitch.graph.passes.sums_in_streams import SumsInStreams
from tf_stitch.graph.passes.undo_swaps import UndoSwaps
from tf_stitch.graph.passes.unroll_loops import UnrollLoops
from tf_stitch.graph.passes.values_of_optionals import ValuesOfOptionals
from tf_stitch.graph.state import GraphState
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.pass_manager import Instrument, Pass, run_passes
from tf_stitch.planning.remote_stitching import Profiles
from tf_stitch.runtime.host_builder import has_host_kernels


@dataclass(frozen=True)
class GraphOptions:
    """What is made of a graph.

    Attributes:
        clusters: what regions hold.
        controls: what the user lets be taken.
        unroll: whether loops become copies of their bodies, if their length is known or a size.
        fold: of these, those whose length is a size.
        loops_as_ops: whether loops that are left run as one op each.
        has_nccl: whether this process has what sums over its GPUs; asked where a graph has such sums.
        are_peers: whether two GPUs, by their numbers, can read each other's memory.
        need_fallback: whether a region that cannot run as an op has to have its TensorFlow nodes at hand.
    """

    clusters: ClusterOptions
    controls: Controls
    unroll: bool
    loops_as_ops: bool
    fold: bool = True
    has_nccl: Callable[[], bool] = lambda: False
    are_peers: Callable[[int, int], bool] = lambda one, other: False
    need_fallback: bool = True

    @staticmethod
    def by(config: StitchConfig, device: str, native: bool, profiles: Profiles, controls: Controls,
           has_nccl: Callable[[], bool] = lambda: False,
           are_peers: Callable[[int, int], bool] = lambda one, other: False) -> GraphOptions:
        """What the user asks for.

        Args:
            device: "GPU" if any node of the graph is on one, else "CPU".
            native: regions run as the native op.
        """
        clusters = ClusterOptions(config.min_region, profiles, native, controls.why_not)
        loops_as_ops = native and _wanted(config.loop_op, device == "CPU" or has_host_kernels(config.kernels_dir))
        return GraphOptions(clusters, controls, _wanted(config.unroll, device == "GPU"), loops_as_ops,
                            has_nccl=has_nccl, are_peers=are_peers)


def graph_passes(options: GraphOptions) -> tuple[Pass[GraphState], ...]:
    """Passes before regions are formed, in order."""
    return passes_before_folding(options) + passes_from_folding(options)


def passes_before_folding(options: GraphOptions) -> tuple[Pass[GraphState], ...]:
    """Passes that do not depend on whether loops may be folded."""
    return (
        CutFeeds(),  # what the caller gives is a placeholder for all that follow
        ValuesOfOptionals(),  # where a gradient needs a branch, both may become selects
        BranchesToSelects(options.clusters.profiles),
        UndoSwaps(),  # before sums, of which copies read parts
        RestoreSums(),  # a loop with a temporary variable would keep a state
        UnrollLoops(options.unroll),
    )


def passes_from_folding(options: GraphOptions) -> tuple[Pass[GraphState], ...]:
    """Passes that do, and all after them."""
    return (
        FoldLoops(options.unroll, options.fold),  # what could not be unrolled, since its length is a size
        LoopsAsOps(options.loops_as_ops, options.controls, options.clusters.profiles),  # what is a loop still
        SumsInStreams(options.controls, options.has_nccl, options.are_peers),
        RelaxConstants(),  # where no branch or loop is left
        ReadSizesFromArguments(),
        AssumeEqualDimensions(),  # of sizes that no argument tells to be one
    )


def finishing_passes(given: GraphDef, members: Mapping[str, str]) -> tuple[Pass[GraphState], ...]:
    """Passes over the graph with regions, in order.

    Args:
        given: the graph as TensorFlow gave it.
        members: node that reads or updates a variable -> the node of the region that it is a member of.
    """
    return (
        PutBackLoops(),  # those that no region took
        UploadInputs(),
        MoveArguments(),  # once uploads read them
        CopyBetweenGpus(),
        DeliverEarly(),
        EndOnHost(),
        HoldVariables(),
        CheckAccessOrder(given, members),
    )


@dataclass
class FoundRegions:
    """A graph's regions.

    Attributes:
        given: the graph as TensorFlow gave it.
        state: the graph that holds them.
        regions: what was found; the caller may keep only some.
    """

    given: GraphDef
    state: GraphState
    regions: Regions
    _clustering: Clustering
    _fallbacks: dict[int, FallbackSubgraph | None]

    def fallback(self, region: RegionGraph) -> FallbackSubgraph | None:
        """The TensorFlow nodes of a region, None if they read a tensor that the region does not."""
        return self._fallbacks.get(id(region))

    @property
    def without_fallback(self) -> list[RegionGraph]:
        """Regions that need their TensorFlow nodes, and do not have them."""
        return [r for r in self.regions.regions if id(r) in self._fallbacks and self._fallbacks[id(r)] is None]

    def replaced(self, make_node: MakeNode, instrument: Instrument[GraphState] | None = None) -> GraphDef:
        """The graph with a node in the place of each region, after the finishing passes.

        Raises:
            VerifyError: a variable's reads and updates are not in the order that TensorFlow gave: a bug.
        """
        members: dict[str, str] = {}
        touch = {name for names in touching(self.state.imported).values() for name in names}

        def make_member(region: RegionGraph, device: str, controls: Sequence[str]) -> NodeDef:
            node = make_node(region, device, controls)
            members.update((member, node.name) for member in region.members if member in touch)
            return node

        state = self.state.with_graph(self._clustering.apply(self.regions.regions, make_member))
        return run_passes(state, finishing_passes(self.given, members), instrument).graph_def


def find_regions(state: GraphState, options: GraphOptions, instrument: Instrument[GraphState] | None = None
                 ) -> FoundRegions:
    """Runs the passes and forms regions.

    A region that holds a folded loop has to be able to run as its fallback subgraph: the loop may be too long. Where
    one cannot, loops stay loops.

    Raises:
        GraphLeftAloneError: the graph is to run as it is.
        UnsupportedError: the graph cannot be read.
    """
    unrolled = run_passes(state, passes_before_folding(options), instrument)
    found = _found(state.graph_def, unrolled, options, instrument)
    if any(node.kind is OpKind.LOOP for region in found.without_fallback for node in region.graph.nodes()):
        return _found(state.graph_def, unrolled, replace(options, fold=False), instrument)
    return found


def _found(given: GraphDef, unrolled: GraphState, options: GraphOptions, instrument: Instrument[GraphState] | None
           ) -> FoundRegions:
    """A region that relies on dimensions assumed equal has to be able to run as its fallback subgraph: dimensions may
    differ. Where one cannot, regions are formed without."""
    found = _formed(given, run_passes(unrolled, passes_from_folding(options), instrument), options)
    if any(region.assumes for region in found.without_fallback):
        return _formed(given, found.state.without_assumption, options)
    return found


def _formed(given: GraphDef, state: GraphState, options: GraphOptions) -> FoundRegions:
    clustering = Clustering(state, options.clusters)
    regions = clustering.find()
    fallbacks = _fallbacks(state, regions, clustering) if options.need_fallback else {}
    return FoundRegions(given, state, regions, clustering, fallbacks)


def _fallbacks(state: GraphState, regions: Regions, clustering: Clustering) -> dict[int, FallbackSubgraph | None]:
    """Fallback subgraphs by the regions' ids. A region that has none gets the inputs that one needs, if they show it a
    size. One whose subgraph cannot give its outputs stays TensorFlow's."""
    defs = {node.name: node for node in state.graph_def.node}

    def fallback(region: RegionGraph) -> FallbackSubgraph | None:
        on_gpu = device_type(state.imported.nodes[region.members[0]].device) == "GPU"
        return fallback_subgraph(defs, state.sure, region, on_gpu, state.sized, state.given_sizes)

    found: dict[int, FallbackSubgraph | None] = {}
    for i, region in enumerate(regions.regions):
        subgraph = fallback(region)
        if subgraph is None and (shown := clustering.showing_sizes(region)) is not None:
            subgraph, regions.regions[i] = fallback(shown), shown
        found[id(regions.regions[i])] = subgraph
    for region in list(regions.regions):
        if (subgraph := found[id(region)]) is not None and subgraph.lacks:
            regions.leave(region, subgraph.lacks)
            del found[id(region)]
    return found


def _wanted(choice: str, auto: bool) -> bool:
    return auto if choice == "auto" else choice == "1"
