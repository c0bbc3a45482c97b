"""A function's result stays on its GPU also where it is an Optional. TensorFlow makes Optionals on the host, so that a
function that returns one ends when the device has computed and copied what is in it. Keras' `fit` and `evaluate` ask
for each step so, and the next one is asked for when this one has been computed: the device has nothing to do
meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.frontend.tensorflow.importer import device_type
from tf_stitch.frontend.tensorflow.memory_types import results_on_host

_HANDS_ON = frozenset({"Identity", "_Retval"})


def leave_on_gpu(graph_def: GraphDef) -> None:
    """Puts Optionals that are only returned on the GPU that has computed all of their values."""
    nodes = {node.name: node for node in graph_def.node}
    readers: dict[str, list[NodeDef]] = {}
    for node in graph_def.node:
        for tensor in node.input:
            if not tensor.startswith("^"):
                readers.setdefault(producer_of(tensor), []).append(node)
    for optional in [node for node in graph_def.node if node.op == "OptionalFromValue"]:
        moved = _until_returned(optional, readers)
        if moved is not None and (gpu := _gpu_of_values(optional, nodes)) is not None:
            for node in moved:
                node.device = gpu


def _until_returned(optional: NodeDef, readers: Mapping[str, Sequence[NodeDef]]) -> list[NodeDef] | None:
    """The Optional and all that read it, None if one of them does more than hand it on."""
    found = [optional]
    for node in found:
        found += readers.get(node.name, ())
    return found if device_type(optional.device) == "CPU" and all(n.op in _HANDS_ON for n in found[1:]) else None


def _gpu_of_values(optional: NodeDef, nodes: Mapping[str, NodeDef]) -> str | None:
    """The device in whose memory all values are, if there is one."""
    values = [nodes[producer_of(tensor)] for tensor in optional.input if not tensor.startswith("^")]
    devices = {value.device for value in values}
    one = len(devices) == 1 and not any(results_on_host(value) for value in values)
    return devices.pop() if one and device_type(values[0].device) == "GPU" else None
