"""Tensors that a TensorFlow 1 session is fed although the graph could compute them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.errors import GraphLeftAloneError
from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.graph.graph_item import OutputType
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import PassResult

_STARTS = frozenset({"_Arg", "Placeholder", "PlaceholderWithDefault"})


@dataclass(frozen=True)
class CutFeeds:
    """Makes placeholders of nodes that are fed, and drops what only they needed.

    TensorFlow does so itself, but after us: a region that held a fed node would compute it, and one that held what
    leads to a fed node would wait for placeholders that nobody feeds.
    """

    name: str = "cut_feeds"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        """
        Raises:
            GraphLeftAloneError: a node reads another result of a fed node.
        """
        graph_def = state.copy_graph()
        nodes: dict[str, NodeDef] = {n.name: n for n in graph_def.node}
        fed = {name for name in state.feeds if name in nodes and nodes[name].op not in _STARTS}
        if not fed:
            return PassResult(state, False)
        for node in nodes.values():
            for source in node.input:
                if producer_of(source) in fed and source.removesuffix(":0") not in fed:
                    raise GraphLeftAloneError(
                        f"{producer_of(source)} is fed, and {node.name} does not read what is fed ({source})")
        leading = _behind(fed, nodes) - fed
        for name in fed:
            _make_placeholder(nodes[name], state.types_of(name)[0])
        dropped = leading - _behind(nodes.keys() - (leading - state.preserved), nodes)
        kept = [n for n in graph_def.node if n.name not in dropped]
        del graph_def.node[:]
        graph_def.node.extend(kept)
        return PassResult(state.with_graph(graph_def), True)


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


def _make_placeholder(node: NodeDef, output: OutputType) -> None:
    dtype, dims = output
    node.op = "Placeholder"
    del node.input[:]
    node.attr.clear()
    node.attr["dtype"].type = dtype
    shape = node.attr["shape"].shape
    shape.unknown_rank = dims is None
    for dim in dims or ():
        shape.dim.add(size=max(dim, -1))
