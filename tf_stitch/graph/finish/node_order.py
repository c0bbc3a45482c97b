"""An order in which a graph's nodes can run."""

from __future__ import annotations

from collections import defaultdict

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.errors import SourceLoc, VerifyError
from tf_stitch.frontend.tensorflow.control_flow import NEXT_ITERATIONS
from tf_stitch.frontend.tensorflow.imported_graph import entrances, producer_of


def in_running_order(graph: GraphDef) -> list[NodeDef]:
    """Kahn's algorithm; the edges out of NextIteration are the back edges that loops are made of. (A region that
    both precedes and follows a loop waits for itself: TensorFlow would end the step without running it.)

    Raises:
        VerifyError: the graph has a cycle that is no loop.
    """
    nodes = {node.name: node for node in graph.node}
    waiting: dict[str, int] = {}
    consumers: dict[str, list[str]] = defaultdict(list)
    extra = entrances(nodes)
    for node in graph.node:
        producers = [*(producer_of(name) for name in node.input), *extra.get(node.name, ())]
        producers = [name for name in producers if nodes[name].op not in NEXT_ITERATIONS]
        waiting[node.name] = len(producers)
        for name in producers:
            consumers[name].append(node.name)
    ready = [name for name, count in waiting.items() if count == 0]
    for name in ready:  # which grows
        for consumer in consumers[name]:
            waiting[consumer] -= 1
            if waiting[consumer] == 0:
                ready.append(consumer)
    if len(ready) != len(nodes):
        stuck = nodes[next(name for name, count in waiting.items() if count)]
        raise VerifyError("is on, or behind, a cycle", SourceLoc(stuck.name, stuck.op))
    return [nodes[name] for name in ready]
