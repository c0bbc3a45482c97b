"""Which of some nodes lead to which, along all edges of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.control_flow import NEXT_ITERATIONS
from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.graph.finish.node_order import in_running_order


@dataclass(frozen=True)
class Reach:
    """For nodes that have bits, by name, the bits of those that lead to them.

    Attributes:
        once: without back edges: in one iteration of a loop.
        ever: with them.
        own: the bits of the nodes themselves.
    """

    once: Mapping[str, int]
    ever: Mapping[str, int]
    own: Mapping[str, int]

    @staticmethod
    def of(graph: GraphDef, own: Mapping[str, int]) -> Reach:
        """Walks the graph once, and a graph with loops as often again as they are nested, and once more.

        Raises:
            VerifyError: the graph has a cycle that is no loop.
        """
        order = in_running_order(graph)
        masks: dict[str, int] = {}
        once = ever = _spread(order, own, masks)
        if any(node.op in NEXT_ITERATIONS for node in order):
            known: dict[str, int] = {}
            while known != masks:
                known = dict(masks)
                ever = _spread(order, own, masks)
        return Reach(once, ever, own)

    def runs_again(self, name: str) -> bool:
        """Whether a node is in a loop."""
        return bool(self.ever[name] & self.own[name])


def _spread(order: Sequence[NodeDef], own: Mapping[str, int], masks: dict[str, int]) -> dict[str, int]:
    """Takes bits along all edges, in order; those that come to nodes with bits."""
    found: dict[str, int] = {}
    for node in order:
        mask = 0
        for edge in node.input:
            mask |= masks.get(producer_of(edge), 0)
        if node.name in own:
            found[node.name] = mask
            mask |= own[node.name]
        if mask:
            masks[node.name] = mask
    return found
