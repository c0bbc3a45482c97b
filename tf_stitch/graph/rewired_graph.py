"""A graph some of whose nodes have given way to others."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from itertools import chain

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor


def rewired_graph(graph_def: GraphDef, gone: Container[str], new: Iterable[NodeDef], renamed: Mapping[str, str]
                  ) -> GraphDef:
    """The graph without the nodes `gone` and with `new` ones.

    Args:
        renamed: "node:index" -> the tensor in its place, which may have another in its own; "^node" -> "^node" to wait
            for in its place.
    """
    out = GraphDef()
    out.CopyFrom(graph_def)
    del out.node[:]
    made = {node.name: node for node in new}
    for source in chain((n for n in graph_def.node if n.name not in gone), made.values()):
        node = out.node.add()
        node.CopyFrom(source)
        data = [_now(edge, renamed) for edge in source.input if not edge.startswith("^")]
        waits = dict.fromkeys(renamed.get(edge, edge) for edge in source.input if edge.startswith("^"))
        node.input[:] = [*data, *waits]
        _drop_colocation(node, lambda name: name in gone and name not in made)
    return out


def _now(edge: str, renamed: Mapping[str, str]) -> str:
    tensor = canonical_tensor(edge)
    if tensor not in renamed:
        return edge
    while tensor in renamed:
        tensor = renamed[tensor]
    return tensor


def _drop_colocation(node: NodeDef, is_gone: Callable[[str], bool]) -> None:
    """Placement is done already."""
    if "_class" not in node.attr:
        return
    kept = [c for c in node.attr["_class"].list.s if not is_gone(c.decode().removeprefix("loc:@"))]
    if len(kept) != len(node.attr["_class"].list.s):
        del node.attr["_class"]
        if kept:
            node.attr["_class"].list.s.extend(kept)
