"""Sums over GPUs may begin before the region that computes what is summed has ended, and end when the region that reads
them has begun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.own_ops import REGIONS
from tf_stitch.graph.passes.all_reduces import ALL_REDUCE
from tf_stitch.graph.passes.exchanges import EXCHANGE
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import PassResult

_MEETINGS = (ALL_REDUCE, EXCHANGE)


@dataclass(frozen=True)
class DeliverEarly:
    """Lets sums over GPUs run beside the regions before and behind them (native/op/arrivals.h). A region that a sum or
    an exchange of its device reads says when its result is there, and the sum waits for that alone. A region that alone
    reads a sum waits for it where it does, not as a whole."""

    name: str = "deliver_early"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        if not any(node.op in _MEETINGS for node in state.graph_def.node):
            return PassResult(state, False)
        graph_def = state.copy_graph()
        deliver_early(graph_def)
        return PassResult(state.with_graph(graph_def), True)


def deliver_early(graph_def: GraphDef) -> None:
    """As DeliverEarly, in place."""
    nodes = {node.name: node for node in graph_def.node}
    readers: dict[str, list[tuple[NodeDef, int]]] = {}
    for node in graph_def.node:
        for i, name in enumerate(name for name in node.input if not name.startswith("^")):
            readers.setdefault(canonical_tensor(name), []).append((node, i))
    for node in graph_def.node:
        if node.op in _MEETINGS:
            _early(node, nodes[producer_of(node.input[0])], readers)
            _late(node, readers)


_Readers = Mapping[str, Sequence[tuple[NodeDef, int]]]
"""Tensor -> nodes that read it, and by which of their inputs."""


def _early(node: NodeDef, before: NodeDef, readers: _Readers) -> None:
    """A sum is written over what is summed, which nobody else may read then."""
    tensor = canonical_tensor(node.input[0])
    if before.op in REGIONS and before.device == node.device and (node.op == EXCHANGE or len(readers[tensor]) == 1):
        before.attr["early"].list.i.append(int(tensor.rpartition(":")[2]))
        node.attr["early"].b = True


def _late(node: NodeDef, readers: _Readers) -> None:
    """A region that reads what was exchanged has to hold what was given, too: its memory is free when nobody does."""
    found = readers.get(f"{node.name}:0", ())
    given = [reader for reader, _ in readers[canonical_tensor(node.input[0])]]
    if len(found) == 1 and found[0][0].op in REGIONS and (node.op == ALL_REDUCE or found[0][0] in given):
        [(region, i)] = found
        if region.device == node.device and i < len(region.attr["Tin"].list.type):
            region.attr["late"].list.i.append(i)
            node.attr["late"].b = True
