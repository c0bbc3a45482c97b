"""Where the program's own nodes read sizes that the rewritten graph reads elsewhere.

A size is read elsewhere because two sizes have one name. A fallback subgraph runs where names turn out to be wrong, so
it reads sizes where the program does, as far as it has those tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.static_values import SHAPE_OPS, STATIC_RULES

_MOST_NODES = 64  # of the arithmetic behind one size


@dataclass(frozen=True)
class GivenSizes:
    """
    Attributes:
        edges: (node, index of its input) -> what it read in the program's graph.
        nodes: those of the program's graph, by name.
    """

    edges: Mapping[tuple[str, int], str] = field(default_factory=dict)
    nodes: Mapping[str, NodeDef] = field(default_factory=dict)

    def restore(self, node: NodeDef, at_hand: Callable[[str], bool]) -> None:
        """Lets a node read sizes where the program does, if they are computed from tensors at hand."""
        for index in range(len(node.input)):
            edge = self.edges.get((node.name, index))
            if edge is not None and self._from(canonical_tensor(edge), at_hand):
                node.input[index] = edge

    def _from(self, tensor: str, at_hand: Callable[[str], bool]) -> bool:
        pending, seen = [tensor], {tensor}
        while pending:
            tensor = pending.pop()
            if at_hand(tensor):
                continue
            node = self.nodes[producer_of(tensor)]
            if len(seen) > _MOST_NODES or not (node.op == "Const" or node.op in SHAPE_OPS or node.op in STATIC_RULES):
                return False
            before = {canonical_tensor(edge) for edge in node.input if not edge.startswith("^")} - seen
            seen |= before
            pending += before
        return True
