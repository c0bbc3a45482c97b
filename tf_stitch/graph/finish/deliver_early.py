"""Sums over GPUs may begin before the region that computes what is summed has ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.own_ops import REGIONS
from tf_stitch.graph.passes.all_reduces import ALL_REDUCE
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import PassResult


@dataclass(frozen=True)
class DeliverEarly:
    """Marks results of regions that a StitchAllReduce of their device alone reads, which is told of it: the region says
    when they are there (native/op/ready_outputs.h), and the sum, in place, waits for that alone. Somebody else would
    read what the sum is written over."""

    name: str = "deliver_early"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        if not any(node.op == ALL_REDUCE for node in state.graph_def.node):
            return PassResult(state, False)
        graph_def = state.copy_graph()
        deliver_early(graph_def)
        return PassResult(state.with_graph(graph_def), True)


def deliver_early(graph_def: GraphDef) -> None:
    """As DeliverEarly, in place."""
    nodes = {node.name: node for node in graph_def.node}
    readers = Counter(canonical_tensor(name) for node in graph_def.node for name in node.input
                      if not name.startswith("^"))
    for node in graph_def.node:
        if node.op != ALL_REDUCE:
            continue
        tensor = canonical_tensor(node.input[0])
        region = nodes[producer_of(tensor)]
        if region.op in REGIONS and region.device == node.device and readers[tensor] == 1:
            region.attr["early"].list.i.append(int(tensor.rpartition(":")[2]))
            node.attr["early"].b = True
