"""TF_STITCH=strict: a graph that could not be rewritten fails when it runs; TensorFlow ignores what the hook raises."""

from __future__ import annotations

import numpy as np
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python.framework.tensor_util import make_tensor_proto

from tf_stitch.frontend.tensorflow.variable_ops import VARIABLES

NAME = "tf_stitch_strict"
_STARTS = ("_Arg", "Placeholder", "PlaceholderWithDefault", "Const", *VARIABLES)


def failing_graph(graph_def: GraphDef, preserved: frozenset[str], message: str) -> GraphDef:
    """The graph with an assertion of `message` in front of everything it returns."""
    graph = GraphDef()
    graph.CopyFrom(graph_def)
    device = next((n.device for n in graph.node if "CPU" in n.device.upper()), graph.node[0].device)
    results = [n for n in graph.node if n.op == "_Retval" or (n.name in preserved and n.op not in _STARTS)]
    for node in results:
        node.input.append(f"^{NAME}")
    graph.node.extend([_constant(f"{NAME}/false", np.asarray(False), device),
                       _constant(f"{NAME}/message", np.asarray(message.encode(), object), device)])
    failure = graph.node.add(name=NAME, op="Assert", device=device, input=[f"{NAME}/false", f"{NAME}/message"])
    failure.attr["T"].list.type.append(_constant("", np.asarray(b"", object), "").attr["dtype"].type)
    failure.attr["summarize"].i = 1
    return graph


def _constant(name: str, value: np.ndarray, device: str) -> NodeDef:
    node = NodeDef(name=name, op="Const", device=device)
    node.attr["value"].tensor.CopyFrom(make_tensor_proto(value))
    node.attr["dtype"].type = node.attr["value"].tensor.dtype
    return node
