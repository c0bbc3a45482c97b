"""Tensor IR -> TensorFlow: op by op at once (the fallback of a region whose kernel cannot be built), or as a
GraphDef."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.eager import context

from tf_stitch.frontend.tensorflow.export_table import EXPORTS, tf_dtype
from tf_stitch.ir import op_attrs as oa
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind as K


@dataclass(frozen=True)
class ExportedGraph:
    """`tensors` gives the TensorFlow tensor of each input key, variable handle and output key."""

    graph_def: Any
    tensors: dict[str, str]


def run_with_tensorflow(graph: TensorGraph, values: Mapping[str, NDArray[Any]],
                        device: str = "/CPU:0") -> dict[str, NDArray[Any]]:
    """Values of the outputs of a static graph, computed by TensorFlow's kernels, eagerly in this thread: it
    may be one of TensorFlow's own, where starting a function could wait for itself.

    Args:
        values: an array per input key and variable handle.
    """
    with context.eager_mode(), tf.device(device):
        computed: dict[Node, Any] = {}
        for node in graph.nodes():
            if node.kind in (K.INPUT, K.VARIABLE):
                computed[node] = tf.constant(values[_key(node)], tf_dtype(node.type.dtype))
            else:
                computed[node] = EXPORTS[node.kind](node, *(computed[o] for o in node.operands), name=None)
        return {key: computed[node].numpy() for key, node in graph.outputs}


def export_graph(graph: TensorGraph) -> ExportedGraph:
    """A static graph as a GraphDef: inputs and variables are placeholders, assigns identities, every other node
    one op named after the user's node it came from (a few need helpers, in a scope of that name)."""
    with tf.Graph().as_default() as tf_graph:
        computed: dict[Node, Any] = {}
        tensors: dict[str, str] = {}
        for node in graph.nodes():
            if node.kind in (K.INPUT, K.VARIABLE):
                name = _node_name(_key(node).partition(":")[0])
                computed[node] = tf.raw_ops.Placeholder(
                    dtype=tf_dtype(node.type.dtype), shape=node.type.dims, name=name)
                tensors[_key(node)] = computed[node].name
            else:
                operands = (computed[o] for o in node.operands)
                computed[node] = EXPORTS[node.kind](node, *operands, name=_node_name(node.loc.node or node.kind.value))
        tensors.update({key: computed[node].name for key, node in graph.outputs})
        return ExportedGraph(tf_graph.as_graph_def(), tensors)


def _key(node: Node) -> str:
    assert isinstance(node.attrs, oa.InputAttrs | oa.VariableAttrs)
    return node.attrs.key if isinstance(node.attrs, oa.InputAttrs) else node.attrs.handle


def _node_name(name: str) -> str:
    """`name` as TensorFlow allows names to be; TensorFlow itself makes them unique."""
    clean = re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", name)
    return clean if re.match(r"[A-Za-z0-9.]", clean) else f"n{clean}"
