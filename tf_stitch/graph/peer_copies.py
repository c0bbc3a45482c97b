"""A region's result goes to a region on another GPU by a copy of ours (native/op/peer_copy_op.cc), for which nobody
waits on the host: the mean of all replicas' losses, with which a step ends."""

from __future__ import annotations

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.importer import device_type
from tf_stitch.graph.own_ops import REGIONS


def copy_between_gpus(graph_def: GraphDef) -> None:
    """Puts a StitchPeerSend and a StitchPeerReceive between regions on two GPUs of one process; regions of a device
    share them."""
    nodes = {node.name: node for node in graph_def.node}
    made: dict[tuple[str, str], str] = {}
    for region in [node for node in graph_def.node if node.op in REGIONS]:
        for i, dtype in enumerate(region.attr["Tin"].list.type):
            tensor = canonical_tensor(region.input[i])
            sender = nodes[producer_of(tensor)]
            if sender.op not in REGIONS or not are_peers(sender, region):
                continue
            if (tensor, region.device) not in made:
                made[tensor, region.device] = _copy(graph_def, tensor, sender, region, dtype, len(made))
            region.input[i] = made[tensor, region.device]


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
