"""Arguments in the host's memory belong to the device that reads them.

TensorFlow puts an int32 argument on the CPU, as GPUs keep such values in the host's memory. A function whose ops are on
a GPU then has two parts, one of which does nothing but send the argument to the other: each is run by its own executor
in threads of a pool, and the caller waits for both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.types_pb2 import DT_INT32

from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.frontend.tensorflow.importer import device_type
from tf_stitch.frontend.tensorflow.memory_types import reads_on_host, results_on_host
from tf_stitch.frontend.tensorflow.own_ops import UPLOAD
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import PassResult


@dataclass(frozen=True)
class MoveArguments:
    """Moves each int32 argument of a CPU that one other device of this process reads, from the host's memory, to that
    device."""

    name: str = "move_arguments"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        moves = dict(_moves(state))
        if not moves:
            return PassResult(state, False)
        graph_def = state.copy_graph()
        for node in graph_def.node:
            node.device = moves.get(node.name, node.device)
        return PassResult(state.with_graph(graph_def), True)


def may_move(argument: NodeDef, device: str, is_own: Callable[[str], bool]) -> bool:
    """Whether a node is an int32 argument on a CPU of this process that would be in the host's memory on another device
    of it, too. Handles of resources stay where the resource is."""
    on_host = device_type(device) == "CPU" or (device_type(device) == "GPU" and results_on_host(argument))
    return (argument.op == "_Arg" and argument.attr["T"].type == DT_INT32
            and device_type(argument.device) == "CPU" and on_host
            and is_own(argument.device) and is_own(device))


def _moves(state: GraphState) -> Iterator[tuple[str, str]]:
    """Arguments, and where they go."""
    readers: dict[str, list[NodeDef]] = {}
    for node in state.graph_def.node:
        for name in node.input:
            readers.setdefault(producer_of(name), []).append(node)
    for node in state.graph_def.node:
        theirs = readers.get(node.name, [])
        device = next((reader.device for reader in theirs), node.device)
        if (device != node.device and may_move(node, device, state.is_own)
                and all(reader.device == device and _reads_on_host(reader) for reader in theirs)):
            yield node.name, device


def _reads_on_host(node: NodeDef) -> bool:
    return device_type(node.device) == "CPU" or node.op == UPLOAD or reads_on_host(node)
