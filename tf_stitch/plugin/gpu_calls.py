"""What first calls need to know of GPUs: whether TensorFlow's graph has room there, and when a call is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python import pywrap_tfe
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.eager.context import Context

from tf_stitch.graph.graph_item import GraphItem
from tf_stitch.messages import say
from tf_stitch.native.bindings import DeviceMemory
from tf_stitch.plugin import graph_hook
from tf_stitch.plugin.element_shapes import largest_elements
from tf_stitch.plugin.function_definition import FunctionDefinition
from tf_stitch.plugin.graph_memory import live_bytes
from tf_stitch.plugin.other_instance import instantiate
from tf_stitch.plugin.sized_graph import ITERATORS, types_in_call

_TIMES = 2
"""How many times the bytes that a graph takes have to be free: other orders of its nodes take more than the one that
the estimate is of, and libraries take scratch memory."""
_PART = 64
"""What part of a GPU's memory a graph may take: it takes more than its kernels will, and a program's most counts."""


def has_room(ctx: Context, definition: FunctionDefinition, name: bytes, inputs: Sequence[Any], outputs: int) -> bool:
    """Whether TensorFlow's graph of a function takes little memory, and each GPU has room for it. False where nobody
    can tell.

    TensorFlow's instance of the function is made, which its first call runs.
    """
    needed: list[int | None] = []

    def look(item: GraphItem) -> None:
        needed.append(None)  # if that fails
        graph = item.graph_def
        needed[0] = live_bytes(graph, item.output_types, _sizes(item, inputs))
        if needed[0] is None:
            needed[0] = live_bytes(graph, types_in_call(graph, item.output_types, inputs), {})

    options = ctx.function_call_options
    try:
        if any(map(_is_of_any_size, definition.nodes())) and not any(map(largest_elements, inputs)):
            return False
        with graph_hook.left_alone(name.decode(), look):
            instantiate(ctx, name, inputs, outputs, options.as_attrs())
        room = min(map(_room, gpu_memory(ctx)), default=0)
    except tf.errors.OpError:  # the call meets it, too
        return False
    except Exception as error:  # in a TensorFlow that is not as those we know
        say(f"a first call waits for its kernels, since it is unknown what GPUs have room for: {error}")
        return False
    return all(of is not None and of <= room for of in needed)


def _room(memory: DeviceMemory) -> int:
    """Bytes that a graph may take."""
    return min(memory.free // _TIMES, memory.limit // _PART)


def gpu_memory(ctx: Context) -> list[DeviceMemory]:
    """Bytes of each GPU, as TensorFlow's allocator counts them."""
    found, devices = [], pywrap_tfe.TFE_ContextListDevices(ctx._context_handle)
    try:
        for i in range(pywrap_tfe.TF_DeviceListCount(devices)):
            if pywrap_tfe.TF_DeviceListType(devices, i) == "GPU":
                in_use = ctx.get_memory_info(pywrap_tfe.TF_DeviceListName(devices, i))["current"]
                found.append(DeviceMemory(in_use, pywrap_tf_session.TF_DeviceListMemoryBytes(devices, i)))
    finally:
        pywrap_tfe.TF_DeleteDeviceList(devices)
    return found


def wait_for_gpus() -> None:
    """Returns when they have done all that was asked of them."""
    tf.test.experimental.sync_devices()


def _is_of_any_size(node: NodeDef) -> bool:
    """Whether it gives tensors whose sizes the graph does not know, as batches of a data set."""
    shapes = node.attr["output_shapes"].list.shape if node.op in ITERATORS else ()
    return any(shape.unknown_rank or any(dim.size < 0 for dim in shape.dim) for shape in shapes)


def _sizes(item: GraphItem, inputs: Sequence[Any]) -> dict[int, int]:
    """Dimensions that the graph does not know, by their negative numbers, as the arguments have them."""
    found: dict[int, int] = {}
    for node in item.graph_def.node:
        if node.op == "_Arg" and node.attr["index"].i < len(inputs):
            [(_, dims)], shape = item.output_types(node.name), inputs[node.attr["index"].i].shape
            if dims is not None and shape.rank == len(dims):
                found |= {dim: size for dim, size in zip(dims, shape, strict=True) if dim < 0}
    return found

