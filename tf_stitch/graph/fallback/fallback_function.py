"""The TensorFlow nodes that a region replaced, as a function that the native op can instantiate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.types_pb2 import DT_RESOURCE

from tf_stitch.frontend.tensorflow.op_outputs import op_outputs

PARALLEL, WRITTEN = "_tf_stitch_parallel", "_tf_stitch_written"
"""Attributes of such functions, see native/op/fallback_function.h."""


def function_def(name: str, nodes: GraphDef, arguments: Mapping[str, int], outputs: Sequence[tuple[str, int]],
                 must_run: Sequence[str], parallel: bool = False, written: Sequence[int] = ()) -> FunctionDef:
    """A function that runs `nodes`.

    Args:
        arguments: name -> TensorFlow DataType; nodes read argument "x" as tensor "x:0".
        outputs: (tensor name, DataType) of each result.
        must_run: nodes that run also if no result needs them.
        parallel: nodes run side by side, else one after the other in one thread.
        written: places of the arguments that are variables which nodes write.

    Raises:
        UnsupportedError: TensorFlow does not know an op of the nodes.
    """
    function = FunctionDef()
    signature = function.signature
    signature.name = name
    signature.is_stateful = DT_RESOURCE in arguments.values()
    if parallel:
        function.attr[PARALLEL].b = True
    function.attr[WRITTEN].list.i.extend(written)
    for argument, dtype in arguments.items():
        signature.input_arg.add(name=argument, type=dtype)
    names = _OutputNames(nodes, arguments)
    for i, (tensor, dtype) in enumerate(outputs):
        signature.output_arg.add(name=f"o{i}", type=dtype)
        function.ret[f"o{i}"] = names.of(tensor)
    for source in nodes.node:
        node = function.node_def.add()
        node.CopyFrom(source)
        node.input[:] = [t if t.startswith("^") else names.of(t) for t in source.input]
    for node_name in must_run:
        signature.control_output.append(node_name)
        function.control_ret[node_name] = node_name
    return function


class _OutputNames:
    """Tensors as functions name them: node "a"'s output 3 is "a:y:1" if the op's outputs are x, x, y[0], y[1]."""

    def __init__(self, nodes: GraphDef, arguments: Mapping[str, int]) -> None:
        self._defs = {n.name: n for n in nodes.node}
        self._arguments = arguments
        self._names: dict[str, list[str]] = {}

    def of(self, tensor: str) -> str:
        node, colon, index = tensor.rpartition(":")
        if not colon:
            node, index = tensor, "0"
        if node in self._arguments:
            return node
        if node not in self._names:
            self._names[node] = [output.name for output in op_outputs(self._defs[node])]
        return f"{node}:{self._names[node][int(index)]}"
