"""Tensor IR -> TensorFlow, op by op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.eager import context

from tf_stitch.frontend.tensorflow.export_table import EXPORTS, tf_dtype
from tf_stitch.ir.graph import Node, TensorGraph, key_of
from tf_stitch.ir.op_attrs import InputAttrs, VariableAttrs
from tf_stitch.ir.op_kinds import Category, OpKind

_MOST_BROADCAST = 5
"""Axes among which TensorFlow's kernels for CPUs broadcast; Tile has more."""


def run_with_tensorflow(graph: TensorGraph, values: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Values of the outputs of a static graph, computed by TensorFlow's kernels for CPUs, eagerly in this thread: it
    may be one of TensorFlow's own, where starting a function could wait for itself.

    Args:
        values: an array per input key and variable handle.
    """
    with context.eager_mode(), tf.device("/CPU:0"):
        tensors = as_tensors(graph, lambda key, node: tf.constant(values[key], tf_dtype(node.type.dtype)))
        return {key: tensor.numpy() for key, tensor in tensors.items()}


def as_tensors(graph: TensorGraph, given: Callable[[str, Node], Any]) -> dict[str, Any]:
    """The outputs of a static graph as TensorFlow's tensors, eager ones or of the graph that is the default.

    Args:
        given: (key or handle, node) -> the tensor of an input or a variable.
    """
    computed: dict[Node, Any] = {}
    for node in graph.nodes():
        if isinstance(node.attrs, InputAttrs | VariableAttrs):
            computed[node] = given(key_of(node), node)
        else:
            computed[node] = _computed(node, [computed[o] for o in node.operands])
    return {key: computed[node] for key, node in graph.outputs}


def _computed(node: Node, operands: Sequence[Any]) -> Any:
    if node.type.rank > _MOST_BROADCAST and (node.category is Category.ELEMENTWISE or node.kind is OpKind.BROADCAST):
        operands = [_repeated(x, o.type.dims, node.type.dims) for x, o in zip(operands, node.operands, strict=True)]
    return EXPORTS[node.kind](node, *operands)


def _repeated(x: Any, have: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    """What is broadcast to `dims`."""
    have = (*(1,) * (len(dims) - len(have)), *have)
    if have == dims:
        return x
    times = [d if one == 1 else 1 for d, one in zip(dims, have, strict=True)]
    return tf.raw_ops.Tile(input=tf.raw_ops.Reshape(tensor=x, shape=np.asarray(have, np.int64)),
                           multiples=np.asarray(times, np.int64))
