"""Tensors that a TensorFlow 1 session is fed although the graph could compute them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.graph.graph_item import GraphItem

_STARTS = frozenset({"_Arg", "Placeholder", "PlaceholderWithDefault"})


def cut_feeds(item: GraphItem) -> str | None:
    """Makes placeholders of nodes that are fed, in place, and drops what only they needed.

    TensorFlow does so itself, but after us: a region that held a fed node would compute it, and one that held what
    leads to a fed node would wait for placeholders that nobody feeds.

    Returns:
        Why the graph has to be left alone, None if it is done.
    """
    nodes: dict[str, NodeDef] = {n.name: n for n in item.graph_def.node}
    fed = {name for name in item.feeds if name in nodes and nodes[name].op not in _STARTS}
    if not fed:
        return None
    for node in nodes.values():
        for source in node.input:
            if producer_of(source) in fed and source.removesuffix(":0") not in fed:
                return f"{producer_of(source)} is fed, and {node.name} does not read what is fed ({source})"
    leading = _behind(fed, nodes) - fed
    for name in fed:
        _make_placeholder(nodes[name], item)
    dropped = leading - _behind(nodes.keys() - (leading - item.preserved), nodes)
    kept = [n for n in item.graph_def.node if n.name not in dropped]
    del item.graph_def.node[:]
    item.graph_def.node.extend(kept)
    return None


def _behind(names: Iterable[str], nodes: Mapping[str, NodeDef]) -> set[str]:
    """The nodes, and all that they need."""
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(producer_of(source) for source in nodes[name].input)
    return seen


def _make_placeholder(node: NodeDef, item: GraphItem) -> None:
    dtype, dims = item.output_types(node.name)[0]
    node.op = "Placeholder"
    del node.input[:]
    node.attr.clear()
    node.attr["dtype"].type = dtype
    shape = node.attr["shape"].shape
    shape.unknown_rank = dims is None
    for dim in dims or ():
        shape.dim.add(size=max(dim, -1))
