"""Variables that a function holds, where TensorFlow's functions have their handles as arguments. TensorFlow hands on
each argument in each call, asks where it lies, and runs an op for it: with two GPUs, 4 ms for 900 variables before the
first kernel."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto

from tf_stitch.frontend.tensorflow.variable_ops import HELD_HANDLE

NUMBER = "_number"
"""No attribute of the op's: what a function computes does not depend on it (plugin/function_definition.py)."""
_HELD = re.compile(r"_tf_stitch_held_\d+")


def held_name(function: str, number: int) -> str:
    """The name of a function that holds variables, whose first one has this number."""
    return f"{function}_tf_stitch_held_{number}"


def original_name(text: str) -> str:
    """A text with the names of functions as the program knows them."""
    return _HELD.sub("", text)


def handle_node(number: int, dtype: int, shape: TensorShapeProto, device: str) -> NodeDef:
    """A node without a name: the handle of a variable that is held by this number (native/op/handle_op.cc)."""
    node = NodeDef(op=HELD_HANDLE, device=device)
    node.attr[NUMBER].i = number
    node.attr["dtype"].type = dtype
    node.attr["shape"].shape.CopyFrom(shape)
    return node


def without_arguments(function: FunctionDef, handles: Mapping[str, NodeDef]) -> FunctionDef:
    """The function with nodes in place of these arguments: VarHandleOps or StitchHandles, which get their names."""
    new = FunctionDef()
    new.CopyFrom(function)
    kept = [arg for arg in function.signature.input_arg if arg.name not in handles]
    old = [arg.name for arg in function.signature.input_arg]
    del new.signature.input_arg[:]
    new.signature.input_arg.extend(kept)
    new.arg_attr.clear()
    new.resource_arg_unique_id.clear()
    for i, arg in enumerate(kept):
        if old.index(arg.name) in function.arg_attr:
            new.arg_attr[i].CopyFrom(function.arg_attr[old.index(arg.name)])
    for node in new.node_def:
        node.input[:] = [handle_of(t) if t in handles else t for t in node.input]
    for name, result in list(new.ret.items()):
        if result in handles:
            new.ret[name] = handle_of(result)
    for argument, source in handles.items():
        node = new.node_def.add()
        node.CopyFrom(source)
        node.name = argument
    new.signature.is_stateful = True
    return new


def handle_of(argument: str) -> str:
    """What the nodes of a function call the handle that stands for an argument."""
    return f"{argument}:resource:0"


def held_numbers(node: NodeDef) -> list[int]:
    """The numbers of the held variables whose handle a node is, or that a region holds."""
    return [node.attr[NUMBER].i] if node.op == HELD_HANDLE else list(node.attr["held"].list.i) if "held" in node.attr \
        else []
