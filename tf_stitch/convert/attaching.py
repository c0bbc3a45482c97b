"""Makes a SavedModel load its module: as an asset that is read when the model is initialized, by whichever loader.

TensorFlow 2 restores objects: one more is a resource whose `_initialize` reads the asset. It has what TensorFlow wants
of a resource that is saved again, with the model or with another around it. Sessions, and TensorFlow's C API, run the
graph's initialization, which gets one more op.
"""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.types_pb2 import DT_INT32, DT_STRING
from tensorflow.core.protobuf.meta_graph_pb2 import AssetFileDef, MetaGraphDef
from tensorflow.python.framework import op_def_registry
from tensorflow.python.saved_model import nested_structure_coder

from tf_stitch.frontend.tensorflow.imported_graph import producer_of

ASSET = "tf_stitch_module"
OPS = ("StitchOp", "StitchStateOp", "StitchModule")
_INITIALIZER, _CREATOR = "__inference__tf_stitch_initialize", "__inference__tf_stitch_create"
_PATH, _LOAD, _INIT = "tf_stitch_module_path", "tf_stitch_load_module", "tf_stitch_init"
_INIT_SIGNATURE, _INIT_COLLECTION = "__saved_model_init_op", "saved_model_main_op"


def attach_module(meta: MetaGraphDef, file: str, digest: str) -> None:
    """Adds the module to a graph.

    Args:
        file: its name among the assets.
        digest: of the module.
    """
    asset = _add_asset(meta, file)
    _add_to_initialization(meta, digest)
    if meta.HasField("object_graph_def"):
        meta.graph_def.library.function.extend([_initializer(digest), _creator()])
        _add_object(meta, asset)
    known = {op.name for op in meta.meta_info_def.stripped_op_list.op}
    for name in OPS:
        if name not in known:
            meta.meta_info_def.stripped_op_list.op.add().CopyFrom(op_def_registry.get(name))


def _add_asset(meta: MetaGraphDef, file: str) -> int:
    """The asset's place. Where a graph of TensorFlow 1 has a list of its own, loaders may read that instead."""
    own = AssetFileDef(filename=file)
    own.tensor_info.name = f"{_PATH}:0"
    old = meta.collection_def.get("saved_model_assets") if "saved_model_assets" in meta.collection_def else None
    if old is not None and not meta.asset_file_def:
        for packed in old.any_list.value:
            found = AssetFileDef()
            packed.Unpack(found)
            meta.asset_file_def.append(found)
    if old is not None:
        old.any_list.value.add().Pack(own)
    meta.asset_file_def.append(own)
    return len(meta.asset_file_def) - 1


def _add_to_initialization(meta: MetaGraphDef, digest: str) -> None:
    path = meta.graph_def.node.add(name=_PATH, op="Const")
    path.attr["dtype"].type = DT_STRING
    path.attr["value"].tensor.CopyFrom(tf.make_tensor_proto("", tf.string, shape=()))
    load = _load_node(_LOAD, f"{_PATH}:0", digest)
    meta.graph_def.node.append(load)
    before = _init_op(meta)
    nodes = {node.name: node for node in meta.graph_def.node}
    if before is not None and before in nodes:
        nodes[before].input.append(f"^{_LOAD}")
        return
    meta.graph_def.node.add(name=_INIT, op="NoOp", input=[f"^{_LOAD}"])
    meta.collection_def[_INIT_COLLECTION].node_list.value.append(_INIT)  # a signature would be one more of the model's


def _init_op(meta: MetaGraphDef) -> str | None:
    """The node that initializes the graph, as TensorFlow's loaders look for it."""
    if _INIT_SIGNATURE in meta.signature_def:
        return producer_of(meta.signature_def[_INIT_SIGNATURE].outputs[_INIT_SIGNATURE].name)
    for key in (_INIT_COLLECTION, "legacy_init_op"):
        if key in meta.collection_def and meta.collection_def[key].node_list.value:
            return producer_of(meta.collection_def[key].node_list.value[0])
    return None


def _load_node(name: str, path: str, digest: str) -> NodeDef:
    node = NodeDef(name=name, op="StitchModule", input=[path])
    node.attr["digest"].s = digest.encode()
    return node


def _initializer(digest: str) -> FunctionDef:
    """() -> 1, for the path as a captured tensor."""
    function = _returning_one(_INITIALIZER, after="load")
    function.signature.is_stateful = True
    function.signature.input_arg.add(name="path", type=DT_STRING)
    function.signature.control_output.append("load")
    function.node_def.append(_load_node("load", "path", digest))
    function.control_ret["load"] = "load"
    return function


def _creator() -> FunctionDef:
    """() -> 1, which stands for the resource's handle: nodes name the module by its digest."""
    return _returning_one(_CREATOR)


def _returning_one(name: str, after: str = "") -> FunctionDef:
    """
    Args:
        after: the node that comes before the result.
    """
    function = FunctionDef()
    function.signature.name = name
    function.signature.output_arg.add(name="done", type=DT_INT32)
    one = function.node_def.add(name="one", op="Const", input=[f"^{after}"] if after else [])
    one.attr["dtype"].type = DT_INT32
    one.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(1, tf.int32))
    function.ret["done"] = "one:output:0"
    return function


def _add_object(meta: MetaGraphDef, asset: int) -> None:
    """A child of the root: a resource that reads the asset when the model is loaded. The asset is its child, so that it
    is saved with it."""
    objects = meta.object_graph_def
    first = len(objects.nodes)
    path = objects.nodes.add()
    path.asset.asset_file_def_index = asset
    for name in (_INITIALIZER, _CREATOR):
        objects.nodes.add().bare_concrete_function.concrete_function_name = name
        concrete = objects.concrete_functions[name]
        concrete.canonicalized_input_signature.CopyFrom(nested_structure_coder.encode_structure(((), {})))
        concrete.output_signature.CopyFrom(nested_structure_coder.encode_structure(tf.TensorSpec((), tf.int32, "done")))
    objects.concrete_functions[_INITIALIZER].bound_inputs.append(first)
    resource = objects.nodes.add()
    resource.resource.device = ""
    for place, name in enumerate(("path", "_initialize", "_create_resource")):
        resource.children.add(node_id=first + place, local_name=name)
    objects.nodes[0].children.add(node_id=first + 3, local_name=ASSET)
