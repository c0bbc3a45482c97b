"""The end of a function waits for other GPUs on the host alone. A control edge between GPUs is a copy of nothing, which
TensorFlow makes when the first one has done all it was given; who asks for a function's end needs to know that the work
is given. On one GPU control edges mean no more than that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.graph.finish.copy_between_gpus import are_peers
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import PassResult

_HANDS_ON = frozenset({"NoOp", "Identity", "OptionalFromValue", "_Retval"})
"""Ops of a function's end: none reads what another one has written."""


@dataclass(frozen=True)
class EndOnHost:
    """Lets the last NoOps of a function wait for other GPUs by a number in the host's memory."""

    name: str = "end_on_host"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        if not _crossing(state.graph_def, state.is_own):
            return PassResult(state, False)
        graph_def = state.copy_graph()
        end_on_host(graph_def, state.is_own)
        return PassResult(state.with_graph(graph_def), True)


def end_on_host(graph_def: GraphDef, is_own: Callable[[str], bool] = lambda device: True) -> None:
    """As EndOnHost, in place.

    Args:
        is_own: whether a device is of this process.
    """
    nodes = {node.name: node for node in graph_def.node}
    crossing = _crossing(graph_def, is_own)
    ends = _ends(graph_def) if crossing else set()
    made: dict[tuple[str, str], str] = {}
    for node, i in ((node, i) for node, i in crossing if node.name in ends):
        before = nodes[producer_of(node.input[i])]
        edge = before.name, node.device
        if edge not in made:
            made[edge] = _on_host(graph_def, before, node.device, len(made))
        node.input[i] = f"^{made[edge]}"


def _crossing(graph_def: GraphDef, is_own: Callable[[str], bool]) -> list[tuple[NodeDef, int]]:
    """NoOps of this process, and which of their inputs waits for another GPU."""
    nodes = {node.name: node for node in graph_def.node}
    return [(node, i) for node in graph_def.node if node.op == "NoOp" for i, control in enumerate(node.input)
            if are_peers(nodes[producer_of(control)], node) and is_own(node.device)]


def _ends(graph_def: GraphDef) -> set[str]:
    """Nodes behind which nothing computes: neither what computes, nor what stands before it."""
    before = {node.name: [producer_of(name) for name in node.input] for node in graph_def.node}
    ends = {node.name for node in graph_def.node if node.op in _HANDS_ON}
    pending = [name for name in before if name not in ends]
    while pending:
        found = ends.intersection(before[pending.pop()])
        ends -= found
        pending += found
    return ends


def _on_host(graph_def: GraphDef, before: NodeDef, device: str, number: int) -> str:
    """The name of a node on a device that runs when `before` has run: it reads an int32, which GPUs keep on the host.
    Ops of ours (native/op/given_op.cc): of TensorFlow's, its optimizer would make the control edge again."""
    name = f"tf_stitch_end_{number}/{before.name}"
    there = graph_def.node.add(name=f"{name}/given", op="StitchGiven", device=before.device, input=[f"^{before.name}"])
    graph_def.node.add(name=name, op="StitchTaken", device=device, input=[there.name])
    return name
