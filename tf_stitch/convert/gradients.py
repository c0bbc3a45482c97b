"""Takes gradients out of a SavedModel that belong to functions with other bodies: they read values by the names of
nodes that are in regions now, and a loader of objects would look for these. Activations such as swish have gradients of
their own."""

from __future__ import annotations

from collections.abc import Collection

from tensorflow.core.framework.function_pb2 import FunctionDefLibrary
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef

GRADIENT = "_gradient_op_type"
"""Attribute of a node: the name under which its gradient is registered."""


def drop_gradients(meta: MetaGraphDef, changed: Collection[str]) -> None:
    """Removes custom gradients that read values of these functions.

    Args:
        changed: names of functions.
    """
    objects = meta.object_graph_def
    gone = {i for i, node in enumerate(objects.nodes) if node.WhichOneof("kind") == "captured_tensor"
            and node.captured_tensor.concrete_function in changed}
    if not gone:
        return
    for i in gone:  # its number has to stay, for those after it
        objects.nodes[i].user_object.identifier = "_generic_user_object"
        objects.nodes[i].user_object.version.producer = 1
        objects.nodes[i].user_object.version.min_consumer = 1
    gradients = {name for name, function in objects.concrete_functions.items() if gone & set(function.bound_inputs)}
    for name in gradients:
        del objects.concrete_functions[name]
    _unregister(meta.graph_def.library, gradients)


def _unregister(library: FunctionDefLibrary, gradients: Collection[str]) -> None:
    registered = {gradient.registered_op_type for gradient in library.registered_gradients
                  if gradient.gradient_func in gradients}
    kept = [gradient for gradient in library.registered_gradients if gradient.gradient_func not in gradients]
    del library.registered_gradients[:]
    library.registered_gradients.extend(kept)
    for function in library.function:
        for node in function.node_def:
            if GRADIENT in node.attr and node.attr[GRADIENT].s.decode() in registered:
                del node.attr[GRADIENT]
