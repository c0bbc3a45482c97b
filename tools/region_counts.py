"""How many regions convolutional networks of Keras have on an H200, and what splits them: found without a GPU.

TensorFlow's optimizer is told of a GPU, which it then lays images out for; regions are found in what it makes, and not
compiled unless --plan asks for it.

    python -m tools.region_counts                                          # about 5 minutes
    python -m tools.region_counts --networks=resnet50 --modes=train --policies=float32 --plan

Prints a line for each network: regions, nodes in them, and by reason how many nodes with work no region holds.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from absl import app, flags

from tf_stitch.compiler.pipeline import CompileOptions, compile_region
from tf_stitch.config import load_config
from tf_stitch.device.spec import H200
from tf_stitch.graph.controls import Controls
from tf_stitch.graph.pipeline import FoundRegions, GraphOptions, find_regions
from tf_stitch.graph.state import GraphState
from tf_stitch.jit.libraries import scope_of

NETWORKS = ("resnet50", "mobilenet_v3_large", "efficientnet_b0", "convnext_tiny", "densenet121", "unet")
_APPLICATIONS = {"resnet50": "ResNet50", "mobilenet_v3_large": "MobileNetV3Large", "efficientnet_b0": "EfficientNetB0",
                 "convnext_tiny": "ConvNeXtTiny", "densenet121": "DenseNet121"}
MODES = ("train", "infer")
BATCH = 2

_NETWORKS = flags.DEFINE_list("networks", list(NETWORKS), "what to look at")
_MODES = flags.DEFINE_list("modes", list(MODES), "train, infer")
_POLICIES = flags.DEFINE_list("policies", ["float32", "mixed_bfloat16"], "of element types")
_SIZE = flags.DEFINE_integer("size", 64, "height and width of the images")
_PLAN = flags.DEFINE_bool("plan", False, "compile the regions too, as far as sources")
_NODES = flags.DEFINE_bool("nodes", False, "name the nodes that no region holds")


@dataclass(frozen=True)
class Counted:
    """What became of a graph.

    Attributes:
        left_out: reason -> nodes with work that no region holds.
    """

    regions: int
    members: int
    left_out: Counter[str]


def network_step(name: str, mode: str, policy: str, size: int = 64) -> Any:
    """A step of a network, traced: a concrete function.

    Args:
        name: one of NETWORKS.
    """
    import keras
    import tensorflow as tf

    from models.unet import unet

    keras.mixed_precision.set_global_policy(policy)
    if name == "unet":
        model, inputs = unet(size // 2, (32, 64, 128)), [(size // 2, size // 2, 3), ()]
    else:
        model = getattr(keras.applications, _APPLICATIONS[name])(weights=None, input_shape=(size, size, 3), classes=10)
        inputs = [(size, size, 3)]
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    optimizer.build(model.trainable_variables)

    def train(*given: Any) -> Any:
        with tf.GradientTape() as tape:
            result = tf.cast(model(list(given) if len(given) > 1 else given[0], training=True), tf.float32)
            loss = tf.reduce_mean(tf.square(result))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    def infer(*given: Any) -> Any:
        return model(list(given) if len(given) > 1 else given[0], training=False)

    step = tf.function(train if mode == "train" else infer, autograph=False)
    return step.get_concrete_function(*(tf.TensorSpec((BATCH, *shape), tf.float32) for shape in inputs))


def optimized(concrete: Any) -> Any:
    """The graph that TensorFlow's optimizer makes of a function for one H200."""
    import tensorflow as tf
    from tensorflow.core.protobuf import config_pb2, device_properties_pb2
    from tensorflow.python.grappler import cluster, tf_optimizer
    from tensorflow.python.ops.handle_data_util import get_resource_handle_data

    graph = concrete.graph
    fetched = [t.op for t in graph.outputs] + list(graph.control_outputs)
    meta = tf.compat.v1.train.export_meta_graph(graph=graph, graph_def=graph.as_graph_def(add_shapes=False))
    meta.collection_def["train_op"].node_list.value.extend(dict.fromkeys(op.name for op in fetched))
    gpu = device_properties_pb2.DeviceProperties(
        type="GPU", vendor="NVIDIA", frequency=1980, num_cores=H200.processors, memory_size=1 << 37, bandwidth=4 << 30,
        environment={"architecture": "9.0", "cuda": "12050", "cudnn": "90300"})
    host = device_properties_pb2.DeviceProperties(type="CPU", frequency=3000, num_cores=16, memory_size=1 << 37)
    place = "/job:localhost/replica:0/task:0/device:{}:0"
    handles = {inside.op.name: inside for _, inside in graph.captures if inside.dtype == tf.resource}
    for node in meta.graph_def.node:
        node.device = place.format("GPU")
        if node.name in handles:
            _become_variable(node, get_resource_handle_data(handles[node.name]).shape_and_type[0])
    devices = [device_properties_pb2.NamedDevice(name=place.format(kind.type), properties=kind) for kind in (host, gpu)]
    return tf_optimizer.OptimizeGraph(config_pb2.ConfigProto(), meta, verbose=False,
                                      cluster=cluster.Cluster(devices=devices))


def _become_variable(node: Any, variable: Any) -> None:
    """Makes a variable's handle, which a function is given without its shape and type, one that says them."""
    node.op = "VarHandleOp"
    node.attr.clear()
    node.attr["dtype"].type = variable.dtype
    node.attr["shape"].shape.CopyFrom(variable.shape)
    node.attr["shared_name"].s = node.name.encode()


def regions_of(concrete: Any) -> FoundRegions:
    """The regions that a step has on an H200."""
    import tensorflow as tf

    graph_def = optimized(concrete)
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
    return find_regions(state, replace(options, need_fallback=False))


def _as_in_a_function(graph_def: Any, results: Sequence[str]) -> set[str]:
    """Makes arguments of placeholders and handles, in place, and nodes that hand results out; the latter's names."""
    for node in graph_def.node:
        if node.op in ("Placeholder", "VarHandleOp"):
            node.op = "_Arg"
    for index, tensor in enumerate(results):
        name, _, output = tensor.rpartition(":")
        given = name if output == "0" else tensor
        graph_def.node.add(name=f"result_{index}", op="_Retval", input=[given],
                           device="/job:localhost/replica:0/task:0/device:GPU:0")
    return {f"result_{index}" for index in range(len(results))}


def counted(found: FoundRegions) -> Counted:
    nodes, held = found.state.imported.nodes, {m for r in found.regions.regions for m in r.members}
    left_out = Counter(reason for name, reason in found.regions.left_out.items()
                       if name not in held and nodes[name].weight and nodes[name].op != "NoOp")
    return Counted(len(found.regions.regions), len(held), left_out)


def main(_: Sequence[str]) -> None:
    for name in _NETWORKS.value:
        for policy in _POLICIES.value:
            for mode in _MODES.value:
                found = regions_of(network_step(name, mode, policy, _SIZE.value))
                count = counted(found)
                left_out = "; ".join(f"{n} {reason}" for reason, n in count.left_out.most_common(20))
                print(f"{name} {policy} {mode}: {count.regions} regions, {count.members} nodes; left out: {left_out}",
                      flush=True)
                if _NODES.value:
                    for node, reason in found.regions.left_out.items():
                        if found.state.imported.nodes[node].weight:
                            print(f"    {node} ({found.state.imported.nodes[node].op}): {reason}")
                if _PLAN.value:
                    _plan(found)


def _plan(found: FoundRegions) -> None:
    for number, region in enumerate(found.regions.regions):
        start = time.perf_counter()
        compiled = compile_region(region.graph, region.input_keys, region.variable_keys, CompileOptions(H200))
        print(f"    region {number}: {len(region.members)} nodes, {len(compiled.kernels)} kernels, "
              f"{len(compiled.calls)} library calls, {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    app.run(main)
