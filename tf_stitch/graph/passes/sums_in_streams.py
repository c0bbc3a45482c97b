"""Sums over the GPUs of this process, in buckets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tf_stitch.frontend.tensorflow.control_context import control_contexts, frame_names
from tf_stitch.graph.clustering.controls import Controls
from tf_stitch.graph.passes.all_reduces import COLLECTIVE, all_reduces_in_streams
from tf_stitch.graph.passes.exchanges import exchange_between_two
from tf_stitch.graph.passes.sum_buckets import cut_into_buckets
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import PassResult


@dataclass(frozen=True)
class SumsInStreams:
    """Makes TensorFlow's collective sums work in the devices' streams, as all_reduces.py says, cuts large ones into
    buckets, as sum_buckets.py does, and makes exchanges of sums of two, as exchanges.py does.

    Attributes:
        controls: what the user lets be taken.
        has_nccl: whether this process has what sums over its GPUs; asked where a graph has such sums.
        are_peers: whether two GPUs can read each other's memory.
    """

    controls: Controls
    has_nccl: Callable[[], bool]
    are_peers: Callable[[int, int], bool]
    name: str = "sums_in_streams"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        if state.device_type != "GPU" or not any(node.op == COLLECTIVE for node in state.graph_def.node):
            return PassResult(state, False)
        nodes, contexts = state.imported.nodes, control_contexts(state.imported, frame_names(state.graph_def))

        def is_free(name: str) -> bool:
            """Whether it runs here, once in every step, in no branch or loop, and the user does not want it left."""
            return (contexts.get(name) == frozenset() and self.controls.why_not(name) is None
                    and state.is_own(nodes[name].device))

        graph_def = state.copy_graph()
        if not all_reduces_in_streams(graph_def, state.imported.statics, is_free, self.has_nccl):
            return PassResult(state, False)
        in_buckets = cut_into_buckets(state.with_graph(graph_def))
        return PassResult(exchange_between_two(in_buckets, self.are_peers), True)
