"""Removes what nobody needs any more from a rewritten graph."""

from __future__ import annotations

from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.frontend.tensorflow.imported_graph import producer_of

_PURE = frozenset({"Shape", "ShapeN", "Size", "Rank", "StridedSlice", "Pack", "ConcatV2", "BroadcastGradientArgs",
                   "Const", "Prod", "Cast", "Reshape", "Identity", "Fill", "Maximum", "FloorDiv", "Mul", "Sub", "AddV2",
                   "ConcatOffset", "Slice", "GatherV2", "ExpandDims", "Squeeze", "Range", "Unpack", "ReadVariableOp",
                   "EmptyTensorList", "TensorListReserve", "TensorListFromTensor", "TensorListElementShape",
                   "TensorListLength"})


def prune(graph: GraphDef, before: GraphDef, preserved: frozenset[str]) -> None:
    """Removes nodes that lost their last user (shapes that only regions needed)."""
    had_users = {producer_of(i) for n in before.node for i in n.input}
    while True:
        used = {producer_of(i) for n in graph.node for i in n.input}
        dead = {n.name for n in graph.node if n.name not in used and n.name in had_users
                and n.name not in preserved and n.op in _PURE}
        if not dead:
            return
        kept = [n for n in graph.node if n.name not in dead]
        del graph.node[:]
        graph.node.extend(kept)
