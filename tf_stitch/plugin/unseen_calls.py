"""Calls of a function that nobody sees: TensorFlow's graph runs on copies of the variables, and results are dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python.eager.context import anonymous_name
from tensorflow.python.framework import op_def_registry

from tf_stitch.frontend.tensorflow.variable_ops import writes_variables
from tf_stitch.plugin.function_definition import FunctionDefinition
from tf_stitch.plugin.held_variables import is_variable

_MOST_BYTES = 256 * 2**20
"""Of constants of the function, which the second instance holds, and of copies of variables."""
_UNSEEN = ("Assert", "Assign", "Case", "If", "NoOp", "PartitionedCall", "Random", "ReadVariableOp", "ResourceApply",
           "ResourceGather", "ResourceScatter", "ResourceSparseApply", "ResourceStridedSliceAssign", "Rng", "Stateful",
           "TruncatedNormal", "VarIsInitializedOp", "VariableShape", "While")
"""Beginnings of ops whose state is in variables, or in the instance of their function."""


def why_seen(definition: FunctionDefinition, inputs: Sequence[Any]) -> str:
    """Why a call of a function beside the program could be noticed, or costs too much; "" if neither is so.

    Args:
        inputs: tensors and variables that it gets, and what it captures.
    """
    if definition.functions[0].attr["_XlaMustCompile"].b:
        return "XLA compiles it"
    if definition.size > _MOST_BYTES:
        return "its constants are too large to be held twice"
    handles = [tensor for tensor in map(_handle, inputs) if tensor.dtype == tf.resource]
    if not all(map(is_variable, handles)):
        return "it reads a data set, a table or another resource"
    named = {function.signature.name for function in definition.functions}
    for node in definition.nodes():
        if not (node.op in named or _is_unseen(node)):
            return f"{node.op} has effects that cannot be undone"
    if writes(definition.functions) and sum(map(_bytes, handles)) > _MOST_BYTES:
        return "copies of its variables would take too much memory"
    return ""


def with_copies(inputs: Sequence[Any]) -> list[Any]:
    """Inputs with copies in place of variables.

    Raises:
        tf.errors.OpError: a variable has no value, or there is no memory.
    """
    return [_copied(tensor) for tensor in map(_handle, inputs)]


def writes(functions: Sequence[FunctionDef]) -> bool:
    """Whether any of these gives new values to variables."""
    return any(writes_variables(node) or (node.op.startswith(("Rng", "Stateful")) and "PartitionedCall" not in node.op)
               for function in functions for node in function.node_def)


def _is_unseen(node: NodeDef) -> bool:
    op = op_def_registry.get(node.op)
    return op is not None and (not op.is_stateful or "PartitionedCall" in node.op or node.op.startswith(_UNSEEN))


def _handle(tensor: Any) -> Any:
    """Of a variable, its handle."""
    return tensor if isinstance(tensor, tf.Tensor) else tensor.handle


def _bytes(handle: Any) -> int:
    about = handle._handle_data.shape_and_type[0]
    sizes = [dim.size for dim in about.shape.dim]
    return _MOST_BYTES + 1 if about.shape.unknown_rank or min(sizes, default=0) < 0 else (
        int(tf.TensorShape(about.shape).num_elements() or 0) * tf.as_dtype(about.dtype).size)


def _copied(tensor: Any) -> Any:
    if tensor.dtype != tf.resource:
        return tensor
    about = tensor._handle_data.shape_and_type[0]
    with tf.device(tensor.device):
        # A buffer of its own: an update of one that is shared would copy it within the time that is measured.
        value = tf.raw_ops.DeepCopy(x=tf.raw_ops.ReadVariableOp(resource=tensor, dtype=about.dtype))
        copy = tf.raw_ops.VarHandleOp(dtype=about.dtype, shape=about.shape, shared_name=anonymous_name())
        tf.raw_ops.AssignVariableOp(resource=copy, value=value)
    copy._handle_data = tensor._handle_data
    return copy
