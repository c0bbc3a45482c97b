"""A region's result goes to a region on another GPU by a copy of ours (native/op/peer_copy_op.cc), for which nobody
waits on the host: the mean of all replicas' losses, with which a step ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.importer import device_type
from tf_stitch.frontend.tensorflow.own_ops import REGIONS
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import PassResult


@dataclass(frozen=True)
class CopyBetweenGpus:
    """Puts a StitchPeerSend and a StitchPeerReceive between regions on two GPUs of one process; regions of a device
    share them."""

    name: str = "copy_between_gpus"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        if not any(_from_peers(state.graph_def)):
            return PassResult(state, False)
        graph_def = state.copy_graph()
        copy_between_gpus(graph_def)
        return PassResult(state.with_graph(graph_def), True)


def copy_between_gpus(graph_def: GraphDef) -> None:
    """As CopyBetweenGpus, in place."""
    made: dict[tuple[str, str], str] = {}
    for sender, region, i in list(_from_peers(graph_def)):
        edge = canonical_tensor(region.input[i]), region.device
        if edge not in made:
            made[edge] = _copy(graph_def, edge[0], sender, region, region.attr["Tin"].list.type[i], len(made))
        region.input[i] = made[edge]


def _from_peers(graph_def: GraphDef) -> Iterator[tuple[NodeDef, NodeDef, int]]:
    """Regions on two GPUs, and which input of the second one the first one gives."""
    nodes = {node.name: node for node in graph_def.node}
    for region in graph_def.node:
        if region.op in REGIONS:
            for i in range(len(region.attr["Tin"].list.type)):
                sender = nodes[producer_of(region.input[i])]
                if sender.op in REGIONS and are_peers(sender, region):
                    yield sender, region, i


def are_peers(one: NodeDef, other: NodeDef) -> bool:
    """Whether they are on two GPUs of one process."""
    task, gpu = one.device.rpartition("/")[::2]
    return device_type(one.device) == device_type(other.device) == "GPU" and other.device.startswith(f"{task}/") \
        and not other.device.endswith(f"/{gpu}")


def _copy(graph_def: GraphDef, tensor: str, sender: NodeDef, region: NodeDef, dtype: int, number: int) -> str:
    sent = graph_def.node.add(name=f"{sender.name}/send_{number}", op="StitchPeerSend", device=sender.device,
                              input=[tensor])
    received = graph_def.node.add(name=f"{region.name}/receive_{number}", op="StitchPeerReceive", device=region.device,
                                  input=[sent.name])
    for node in (sent, received):
        node.attr["T"].type = dtype
    return str(received.name)
