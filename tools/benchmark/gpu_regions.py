"""The regions that a function of TensorFlow has on an H200, found without a GPU: TensorFlow's optimizer is told of one,
for which it lays images out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2, device_properties_pb2
from tensorflow.python.grappler import cluster, tf_optimizer
from tensorflow.python.ops.handle_data_util import get_resource_handle_data

from tf_stitch.config import load_config
from tf_stitch.device.spec import H200
from tf_stitch.graph.clustering.controls import Controls
from tf_stitch.graph.pipeline import FoundRegions, GraphOptions, find_regions
from tf_stitch.graph.state import GraphState
from tf_stitch.jit.libraries import scope_of

_PLACE = "/job:localhost/replica:0/task:0/device:{}:0"


@dataclass(frozen=True)
class Counted:
    """What became of a graph.

    Attributes:
        left_out: reason -> nodes with work that no region holds.
    """

    regions: int
    members: int
    left_out: Counter[str]


MEMORY = 1 << 37
"""Bytes that the GPU has."""


def optimized(concrete: Any, memory: int = MEMORY) -> Any:
    """The graph that TensorFlow's optimizer makes of a function for one H200, or one of as many bytes of memory."""
    graph = concrete.graph
    fetched = [t.op for t in graph.outputs] + list(graph.control_outputs)
    meta = tf.compat.v1.train.export_meta_graph(graph=graph, graph_def=graph.as_graph_def(add_shapes=False))
    meta.collection_def["train_op"].node_list.value.extend(dict.fromkeys(op.name for op in fetched))
    gpu = device_properties_pb2.DeviceProperties(
        type="GPU", vendor="NVIDIA", frequency=1980, num_cores=H200.processors, memory_size=memory, bandwidth=4 << 30,
        environment={"architecture": "9.0", "cuda": "12050", "cudnn": "90300"})
    host = device_properties_pb2.DeviceProperties(type="CPU", frequency=3000, num_cores=16, memory_size=MEMORY)
    handles = {inside.op.name: inside for _, inside in graph.captures if inside.dtype == tf.resource}
    for node in meta.graph_def.node:
        node.device = _PLACE.format("GPU")
        if node.name in handles:
            _become_variable(node, get_resource_handle_data(handles[node.name]).shape_and_type[0])
    devices = [device_properties_pb2.NamedDevice(name=_PLACE.format(kind.type), properties=kind)
               for kind in (host, gpu)]
    found = tf_optimizer.OptimizeGraph(config_pb2.ConfigProto(), meta, verbose=False,
                                       cluster=cluster.Cluster(devices=devices))
    for node in found.node:  # of a call that the optimizer inlined; where there is a GPU it finds calls inlined
        node.device = node.device or _PLACE.format("GPU")
    return found


def _become_variable(node: Any, variable: Any) -> None:
    """Makes a variable's handle, which a function is given without its shape and type, one that says them."""
    node.op = "VarHandleOp"
    node.attr.clear()
    node.attr["dtype"].type = variable.dtype
    node.attr["shape"].shape.CopyFrom(variable.shape)
    node.attr["shared_name"].s = node.name.encode()


def regions_of(concrete: Any, memory: int = MEMORY) -> FoundRegions:
    """The regions that a step has on an H200."""
    return find_regions(*state_of(concrete, memory))


def state_of(concrete: Any, memory: int = MEMORY) -> tuple[GraphState, GraphOptions]:
    """A step as TensorFlow's optimizer hands it over on an H200, and how regions are found in it."""
    graph_def = optimized(concrete, memory)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
    types = {op.name: [(t.dtype.as_datatype_enum,
                        None if t.shape.rank is None else tuple(-1 if d is None else d for d in t.shape.as_list()))
                       for t in op.outputs] for op in graph.get_operations()}
    kept = _as_in_a_function(graph_def, [t.name for t in concrete.graph.outputs])
    kept |= {op.name for op in concrete.graph.control_outputs}
    config = load_config()
    options = GraphOptions.by(config, "GPU", True, {"GPU": H200.profile}, Controls(config))
    state = GraphState(graph_def, lambda name: types.get(name, []), frozenset(kept),
                       scope_of("region", convolutions=True), device_type="GPU")
    return state, replace(options, need_fallback=False)


def _as_in_a_function(graph_def: Any, results: Sequence[str]) -> set[str]:
    """Makes arguments of placeholders and handles, in place, and nodes that hand results out; the latter's names."""
    for node in graph_def.node:
        if node.op in ("Placeholder", "VarHandleOp"):
            node.attr["T"].type = node.attr["dtype"].type if node.op == "Placeholder" else tf.resource.as_datatype_enum
            node.op = "_Arg"
    for index, tensor in enumerate(results):
        name, _, output = tensor.rpartition(":")
        given = name if output == "0" else tensor
        graph_def.node.add(name=f"result_{index}", op="_Retval", input=[given],
                           device=_PLACE.format("GPU"))
    return {f"result_{index}" for index in range(len(results))}


def counted(found: FoundRegions) -> Counted:
    nodes, held = found.state.imported.nodes, {m for r in found.regions.regions for m in r.members}
    left_out = Counter(reason for name, reason in found.regions.left_out.items()
                       if name not in held and nodes[name].weight and nodes[name].op != "NoOp")
    return Counted(len(found.regions.regions), len(held), left_out)
